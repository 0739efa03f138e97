"""What the integers of Relay's inputs and outputs stand for."""

from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout.artifact import Quantization
from relay_layout.relay.importing import from_tree
from relay_layout.relay.importing.border import quantized_border
from relay_layout.relay.syntax.text_reader import read_text

KIND = "Tensor[(1, 4, 6, 6), uint8]"


def border(
    parameters: str, body: str, **values: np.ndarray
) -> tuple[list[Quantization | None], list[Quantization | None]]:
    main = read_text(f"def @main({parameters}) {{\n{body}\n}}").functions["main"]
    return quantized_border(main, values)


def pair(scale: float, zero_point: int) -> Quantization:
    return Quantization((float(np.float32(scale)),), (zero_point,))


def test_operands_by_their_names() -> None:
    body = "qnn.add(%a, %b, 0.5f, 3, 0.25f, 4, 0.125f, 5)"
    inputs, outputs = border(f"%a: {KIND}, %b: {KIND}", body)
    assert inputs == [pair(0.5, 3), pair(0.25, 4)]
    assert outputs == [pair(0.125, 5)]


@pytest.mark.parametrize("read_twice, stated", [("0.5f, 3", pair(0.5, 3)), ("0.25f, 3", None)])
def test_readers_must_agree(read_twice: str, stated: Quantization | None) -> None:
    body = f"%0 = qnn.dequantize(%a, 0.5f, 3); %1 = qnn.dequantize(%a, {read_twice}); add(%0, %1)"
    assert border(f"%a: {KIND}", body) == ([stated], [None])


def test_a_reader_of_mere_integers() -> None:
    body = '%0 = qnn.dequantize(%a, 0.5f, 3); %1 = cast(%a, dtype="float32"); add(%0, %1)'
    assert border(f"%a: {KIND}", body)[0] == [None]


def test_scales_that_are_parameters() -> None:
    parameters = f"%a: {KIND}, %scale: float32, %zero: int32"
    body = "qnn.dequantize(%a, %scale, %zero)"
    assert border(parameters, body)[0] == [None, None, None]
    values = {"scale": np.float32(0.5), "zero": np.int32(7)}
    assert border(parameters, body, **values)[0][0] == pair(0.5, 7)


def test_vectors_of_scales_are_not_stated() -> None:
    scales = np.array([1, 2, 3, 4], "float32")
    body = "qnn.dequantize(%a, %scales, 0, axis=1)"
    parameters = f"%a: {KIND}, %scales: Tensor[(4), float32]"
    assert border(parameters, body, scales=scales)[0][0] is None


def test_outputs_through_operators_that_keep_numbers() -> None:
    body = """let %made = qnn.requantize(%a, 0.5f, 0, 0.25f, 9, out_dtype="uint8");
      %0 = clip(%made, a_min=2f, a_max=90f);
      %1 = qnn.dequantize(%made, 0.25f, 9);
      (%0, %1)"""
    assert border("%a: Tensor[(1, 4), int32]", body) == ([pair(0.5, 0)], [pair(0.25, 9), None])


def test_a_session_tells_it(tmp_path: Path) -> None:
    """Of inputs alone: what has a value is no input any more."""
    source = f"""def @main(%w: Tensor[(8, 4, 3, 3), int8], %x: {KIND}) {{
      %0 = qnn.conv2d(%x, %w, 131, 0, 0.02f, 0.01f, channels=8, kernel_size=[3, 3], out_dtype="int32");
      qnn.requantize(%0, 0.0002f, 0, 0.05f, 7, out_dtype="uint8")
    }}"""
    weight = np.ones((8, 4, 3, 3), "int8")
    compiled = relay_layout.compile(from_tree(read_text(source), {"w": weight}))
    compiled.save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla")
    assert [tensor.quantization for tensor in session.inputs] == [pair(0.02, 131)]
    assert [tensor.quantization for tensor in session.outputs] == [pair(0.05, 7)]
