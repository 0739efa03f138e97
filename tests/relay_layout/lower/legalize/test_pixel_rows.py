"""Pointwise convolutions of images of any size, and products of any number of rows.

ONNX Runtime's and numpy's numbers, and one kernel with what follows.
"""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tvm import relax, tirx

import relay_layout
from relay_layout.compiler import convert
from relay_layout.lower.legalize import pixel_rows
from relay_layout.lower.stages import lower
from relay_layout.targets import resolve_target
from tests.relay_layout.lower.open_images import agree
from tests.relay_layout.lower.row_products import ROWS, Extents, RowProduct

SIZES = [(1, 28, 28), (2, 5, 3), (3, 19, 33), (1, 1, 1), (1, 1, 2)]
"""Batch, rows and columns."""

NETWORKS = {
    "bias and activation": "c = Conv (x, w, b) y = Relu (c)",
    "a residual": "c = Conv (x, w, b) d = Relu (c) e = Conv (d, v) f = Add (e, d) y = Relu (f)",
    "images between": (
        "c = Conv (x, w, b) d = Relu (c) e = MaxPool <kernel_shape=[2,2], pads=[1,1,1,1]> (d) y = Conv (e, v)"
    ),
    "a factor for each image": (
        "c = Conv (x, w, b) m = GlobalAveragePool (c) s = Sigmoid (m) f = Mul (c, s) g = Add (f, c) "
        "y = Conv (g, v)"
    ),
    "strides": "c = Conv <strides=[2,3]> (x, w, b) y = Conv (c, v)",
    "groups": "c = Conv (x, w, b) y = Conv <group=4> (c, u)",
}


def network(body: str, channels: int, outputs: int) -> Any:
    rng = np.random.default_rng(0)
    header = '<ir_version: 8, opset_import: ["" : 17]> rows'
    model = onnx.parser.parse_model(f"{header} (float[n,{channels},h,w] x) => (float y) {{ {body} }}")
    shapes = {
        "w": (outputs, channels, 1, 1),
        "b": (outputs,),
        "v": (outputs, outputs, 1, 1),
        "u": (outputs, outputs // 4, 1, 1),
        "t": (outputs, channels, 3, 3),
    }
    for name, shape in shapes.items():
        array = rng.standard_normal(shape).astype("float32")
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model


@pytest.mark.parametrize("channels", [(8, 24), (3, 20), (16, 64)], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str, channels: tuple[int, int], tmp_path: Path) -> None:
    report = agree(network(NETWORKS[name], *channels), channels[0], tmp_path, SIZES)
    assert report["kernels"]["default"] >= (1 if name == "groups" else name.count("y") + 1)


def test_what_follows_is_one_kernel(tmp_path: Path) -> None:
    report = agree(network(NETWORKS["a residual"], 16, 64), 16, tmp_path, SIZES)
    convolutions = [each["function"] for each in report["calls"] if "conv2d" in each["function"]]
    assert len(convolutions) == 2
    assert "add" in convolutions[1] and "relu" in convolutions[1]


WINDOW = "s = Conv <pads=[1,1,1,1]> (x, t, b)"

SUMS = {
    "of what is stored anyway": f"{WINDOW} d = Relu (s) e = Conv (d, v) y = Add (e, d)",
    "of what nothing else reads": f"{WINDOW} e = Conv (x, w) y = Add (e, s)",
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_is_in_the_kernel_of_a_convolution(name: str, tmp_path: Path) -> None:
    report = agree(network(SUMS[name], 16, 64), 16, tmp_path, SIZES)
    adding = [each["function"] for each in report["calls"] if "add" in each["function"]]
    assert adding and all("conv2d" in each for each in adding), adding


@pytest.mark.parametrize("layout", ["NCHW", "NCHW8c"])
def test_other_layouts(layout: str, tmp_path: Path) -> None:
    agree(network(NETWORKS["a residual"], 16, 64), 16, tmp_path, SIZES, desired_layout=layout)


@pytest.mark.parametrize("name", ROWS)
def test_products_of_any_number_of_rows(name: str, tmp_path: Path) -> None:
    rows, sizes = ROWS[name]
    names = [each for each in RowProduct(rows, 24, 37).functions(sizes, tmp_path) if "number" not in each]
    assert len(names) == 2
    assert "relu" in names[0]
    assert "add" in names[1]


def test_long_rows_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pixel_rows, "TILE_BYTES", 1 << 17)
    names = RowProduct(("n",), 70, 40).functions([(0,), (1,), (5,), (33,)], tmp_path)
    assert sum("dense" in each for each in names) > 2
    assert any("relu" in each for each in names if "dense" in each)


def test_the_same_number_of_rows_is_counted_once(tmp_path: Path) -> None:
    names = RowProduct(("n", "s"), 24, 37).functions([(2, 3)], tmp_path)
    assert sum("number_of_pixels" in each for each in names) == 1
    assert "number" not in " ".join(RowProduct(("n",), 24, 37).functions([(2,)], tmp_path))


def test_a_matrix_of_several_products_is_one_weight() -> None:
    matrix = relax.const(np.eye(32, dtype="float32"))
    data = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 32], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            first = builder.emit(relax.op.tanh(builder.emit(relax.op.matmul(data, matrix))))
            result = builder.emit_output(relax.op.matmul(first, matrix))
        builder.emit_func_output(result)
    compiled = relay_layout.compile(builder.finalize(), shipped_records=False)
    (content,) = compiled.contents
    assert [weight.shape for weight in content.weights.values()] == [(2, 32, 16)]


@pytest.mark.parametrize("kernel", [1, 3])
def test_pairs_of_words_are_for_known_sizes(kernel: int) -> None:
    """Of any size there is no kernel of BFMMLA: another one is chosen."""
    target = resolve_target("aarch64-neoverse-n2", precision="bf16", threads=2)
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> images (float[1,64,h,w] x) => (float y) '
        f"{{ y = Conv <pads=[{', '.join([str(kernel // 2)] * 4)}]> (x, w) }}"
    )
    model = onnx.parser.parse_model(text)
    weight = np.ones((96, 64, kernel, kernel), "float32")
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    lowered = lower(convert(model, target=target).module, target, lambda line: None)
    assert all(each.source != "fallback" for each in lowered.kernels)


def test_pairs_of_words_of_bytes_are_for_known_sizes() -> None:
    """Of any number of rows there is no kernel of SMMLA: another one is chosen."""
    target = resolve_target("aarch64-neoverse-n2", threads=2)
    data = relax.Var("x", relax.TensorType([tirx.Var("n", "int64"), 64], "uint8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            weight = relax.const(np.ones((64, 96), "int8"))
            result = builder.emit_output(relax.op.matmul(data, weight, out_dtype="int32"))
        builder.emit_func_output(result)
    lowered = lower(convert(builder.finalize(), target=target).module, target, lambda line: None)
    assert [each.source for each in lowered.kernels] == ["default"]


@pytest.mark.parametrize("rows", [("n",), ("n", "s"), ("n", 16)], ids=str)
def test_products_of_bytes(rows: Extents, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    matrix = random.integers(-128, 128, (40, 37)).astype("int8")
    shape = [tirx.Var(extent, "int64") if isinstance(extent, str) else extent for extent in rows]
    data = relax.Var("x", relax.TensorType([*shape, 40], "uint8"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(data, relax.const(matrix), out_dtype="int32"))
            result = builder.emit_output(relax.op.nn.relu(product))
        builder.emit_func_output(result)
    compiled = relay_layout.compile(builder.finalize(), shipped_records=False)
    (build,) = compiled.manifest.builds
    assert build.report["kernels"].get("default") == 1
    compiled.save(tmp_path / "bytes.rla")
    session = relay_layout.load(tmp_path / "bytes.rla")
    for number in (0, 1, 3, 9, 40):
        given = random.integers(0, 256, [number if isinstance(each, str) else each for each in rows] + [40])
        (found,) = session.run({"x": given.astype("uint8")}).values()
        np.testing.assert_array_equal(found, np.maximum(given @ matrix.astype("int64"), 0))


def test_pixels_are_as_many_counted_by_rows_or_by_columns(tmp_path: Path) -> None:
    rows, columns = tirx.Var("rows", "int64"), tirx.Var("columns", "int64")
    given = [
        relax.Var("one", relax.TensorType([1, (rows + 1) // 2 * columns, 16], "float32")),
        relax.Var("other", relax.TensorType([1, columns * ((rows + 1) // 2), 16], "float32")),
        relax.Var("image", relax.TensorType([1, 1, rows, columns], "float32")),
    ]
    matrix = np.random.default_rng(0).standard_normal((16, 16)).astype("float32")
    builder = relax.BlockBuilder()
    with builder.function("main", given):
        with builder.dataflow():
            parts = [builder.emit(relax.op.matmul(each, relax.const(matrix))) for each in given[:2]]
            result = builder.emit_output(relax.op.add(*parts))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize(), threads=2, shipped_records=False).save(tmp_path / "rows.rla")
    data = {"one": np.ones((1, 12, 16), "float32"), "other": np.full((1, 12, 16), 2, "float32")}
    (found,) = (
        relay_layout.load(tmp_path / "rows.rla")
        .run(data | {"image": np.zeros((1, 1, 5, 4), "float32")})
        .values()
    )
    np.testing.assert_allclose(found, (data["one"] + data["other"]) @ matrix, rtol=1e-5, atol=1e-5)
