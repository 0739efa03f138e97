"""Inputs and outputs in layouts that the caller fixes."""

from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import relay_layout
from relay_layout.errors import LayoutError
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.border import with_border_layouts
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

TARGET = resolve_target("native", threads=2)
WEIGHT = np.random.default_rng(0).standard_normal((8, 4, 3, 3)).astype("float32")
IMAGE = np.random.default_rng(1).standard_normal((1, 4, 6, 5)).astype("float32")


def module(outputs: int = 1) -> relax.Function:
    """A convolution and a relu of an input called image; with two outputs both are given."""
    image = relax.Var("image", relax.TensorType((1, 4, 6, 5), "float32"))
    with main_of(image) as builder:
        convolved = builder.emit(relax.op.nn.conv2d(image, relax.const(WEIGHT), padding=1))
        results = [builder.emit(relax.op.nn.relu(convolved)), convolved][:outputs]
        builder.result = results[0] if outputs == 1 else relax.Tuple(results)
    return builder.finalize()


def run(folder: Path, image: np.ndarray, outputs: int = 1, **options: object) -> list[np.ndarray]:
    compiled = relay_layout.compile(module(outputs), **options)  # type: ignore[arg-type]
    compiled.save(folder / "net.rla")
    return list(relay_layout.load(folder / "net.rla").run({"image": image}).values())


def test_an_input_comes_in_the_layout_that_is_fixed(tmp_path: Path) -> None:
    plain = run(tmp_path, IMAGE)[0]
    given = run(tmp_path, np.ascontiguousarray(IMAGE.transpose(0, 2, 3, 1)), input_layouts={"image": "NHWC"})[
        0
    ]
    np.testing.assert_allclose(given, plain, rtol=1e-5, atol=1e-5)


def test_an_output_leaves_in_the_layout_that_is_fixed(tmp_path: Path) -> None:
    plain = run(tmp_path, IMAGE, 2)
    given = run(tmp_path, IMAGE, 2, output_layouts={"output_1": "NHWC"})
    np.testing.assert_allclose(given[0], plain[0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(given[1].transpose(0, 3, 1, 2), plain[1], rtol=1e-5, atol=1e-5)


def test_a_network_all_in_the_fixed_layout_has_no_transform() -> None:
    request = LayoutRequest.parse("NHWC")
    fixed = LayoutRequest(
        request.desired_layouts,
        request.for_all,
        input_layouts={"image": "NHWC"},
        output_layouts={"output": "NHWC"},
    )
    assert convert_layout(module(), request, TARGET)[1].layout_transforms == 2
    assert convert_layout(module(), fixed, TARGET)[1].layout_transforms == 0


def test_the_manifest_names_the_layout(tmp_path: Path) -> None:
    compiled = relay_layout.compile(module(), input_layouts={"image": "NHWC"})
    spec = compiled.manifest.inputs[0]
    assert (spec.shape, spec.layout) == ((1, 6, 5, 4), "NHWC")


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"input_layouts": {"x": "NHWC"}}, "there is no input 'x' to have a layout; there are image"),
        ({"output_layouts": {"x": "NHWC"}}, "there is no output 'x' to have a layout; there are output"),
        (
            {"input_layouts": {"image": "NHW"}},
            "layout NHW does not fit input 'image': its dimensions are NCHW, in any order and without blocks",
        ),
        (
            {"input_layouts": {"image": "NCHW4c"}},
            "layout NCHW4c does not fit input 'image': its dimensions are NCHW, "
            "in any order and without blocks",
        ),
    ],
)
def test_layouts_must_fit(layouts: dict[str, dict[str, str]], message: str) -> None:
    with pytest.raises(LayoutError) as raised:
        with_border_layouts(module(), LayoutRequest(**layouts))  # type: ignore[arg-type]
    assert str(raised.value) == message
