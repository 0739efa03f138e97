"""Operands that fit for some sizes of images alone; the others are refused in each call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import InputError, ModelError
from tests.onnx_reference import reference_session

Sizes = Mapping[str, tuple[int, ...]]

HALVED = "p = MaxPool <kernel_shape=[2,2], strides=[2,2]> (x)"
ROUNDED = "p = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (x)"
NEAREST = 'Resize <mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">'
DOUBLED = f"u = {NEAREST} (p, , f)"
TWICE = "<float[4] f = {1,1,2,2}>"
IMAGE = "float[N,4,H,W] x"

CASES: dict[str, tuple[str, Sizes, Sizes, str]] = {
    "keys and values of a cache, which grow by one each": (
        "(float[2,K] x, float[L,3] z) => (float y) <float[2,1] k = {1,2}, float[1,3] v = {3,4,5}> { "
        "p = Concat <axis=1> (x, k) q = Concat <axis=0> (z, v) y = MatMul (p, q) }",
        {"x": (2, 5), "z": (5, 3)},
        {"x": (2, 5), "z": (6, 3)},
        "input 'z': dimension 0 ('L') is 6, but input 'x' has L = 5",
    ),
    "two images that the same windows reduce": (
        f"(float[N,4,H,6] x, float[N,4,K,6] z) => (float y) {{ {ROUNDED} "
        "q = MaxPool <kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]> (z) y = Concat <axis=1> (p, q) }",
        {"x": (1, 4, 7, 6), "z": (1, 4, 7, 6)},
        {"x": (1, 4, 7, 6), "z": (1, 4, 9, 6)},
        "input 'z': dimension 2 ('H') is 9, but input 'x' has H = 7",
    ),
    "doubled after it was halved": (
        f"({IMAGE}) => (float y) {TWICE} {{ {HALVED} {DOUBLED} y = Add (u, x) }}",
        {"x": (2, 4, 6, 10)},
        {"x": (2, 4, 7, 10)},
        "the model was exported for inputs of which x.shape[2] % 2 == 0, got x.shape[2] = 7",
    ),
    "doubled after it was halved and rounded up": (
        f"({IMAGE}) => (float y) {TWICE} {{ {ROUNDED} {DOUBLED} y = Concat <axis=1> (x, u) }}",
        {"x": (1, 4, 6, 10)},
        {"x": (1, 4, 6, 9)},
        "the model was exported for inputs of which x.shape[3] % 2 == 0, got x.shape[3] = 9",
    ),
    "several levels": (
        f"({IMAGE}) => (float y) <float[4] f = {{1,1,2,2}}, float[4] g = {{1,1,6,6}}> {{ {HALVED} "
        "q = MaxPool <kernel_shape=[3,3], strides=[3,3]> (p) "
        f"r = {NEAREST} (q, , g) {DOUBLED} a = Add (u, x) y = Sub (a, r) }}",
        {"x": (1, 4, 6, 12)},
        {"x": (1, 4, 8, 12)},
        "the model was exported for inputs of which x.shape[2] % 6 == 0, got x.shape[2] = 8",
    ),
    "every other pixel": (
        f"({IMAGE}) => (float y) <int64[2] z = {{0,0}}, int64[2] o = {{1,0}}, int64[2] a = {{2,3}}, "
        "int64[2] e = {9223372036854775807,9223372036854775807}, int64[2] s = {2,2}> "
        "{ b = Slice (x, z, e, a, s)  c = Slice (x, o, e, a, s)  y = Concat <axis=1> (b, c) }",
        {"x": (1, 4, 6, 7)},
        {"x": (1, 4, 5, 7)},
        "the model was exported for inputs of which x.shape[2] % 2 == 0, got x.shape[2] = 5",
    ),
    "one pixel more than a multiple": (
        f"({IMAGE}) => (float y) <float[4] f = {{1,1,4,1}}, int64[1] z = {{0}}, int64[1] e = {{-3}}, "
        "int64[1] a = {2}> { p = MaxPool <kernel_shape=[1,1], strides=[4,1]> (x) "
        f"u = {NEAREST} (p, , f)  v = Slice (u, z, e, a)  y = Mul (v, x) }}",
        {"x": (1, 4, 9, 3)},
        {"x": (1, 4, 8, 3)},
        "the model was exported for inputs of which x.shape[2] % 4 == 1, got x.shape[2] = 8",
    ),
    "pixels of all rows, of an image that was halved and doubled": (
        f"({IMAGE}) => (float y) <float[4] f = {{1,1,2,2}}, int64[3] s = {{0,4,-1}}> {{ {HALVED} {DOUBLED} "
        "a = Reshape (u, s) b = Reshape (x, s) y = Add (a, b) }",
        {"x": (2, 4, 6, 10)},
        {"x": (2, 4, 6, 9)},
        "the model was exported for inputs of which x.shape[3] % 2 == 0, got x.shape[3] = 9",
    ),
    "channels that are pixels by those of a smaller image": (
        "(float[1,4,H,W] x) => (float y) <int64[2] o = {1,-1}, float[1,4,1,1] w = {1,2,3,4}> "
        "{ p = MaxPool <kernel_shape=[1,1], strides=[2,2]> (x) "
        "q = AveragePool <kernel_shape=[2,2], strides=[2,2]> (x)  s = Shape <start=2> (q) "
        "t = Concat <axis=0> (o, s)  u = Reshape (p, t)  y = Conv (u, w) }",
        {"x": (1, 4, 6, 10)},
        {"x": (1, 4, 6, 9)},
        "the model was exported for inputs of which x.shape[3] % 2 == 0, got x.shape[3] = 9",
    ),
    "a number": (
        "(float[N,4] x, float[3,4] z) => (float y) { y = Add (x, z) }",
        {"x": (3, 4), "z": (3, 4)},
        {"x": (2, 4), "z": (3, 4)},
        "input 'x': expected float32 [3, 4], got float32 [2, 4]",
    ),
    "two inputs of one size": (
        "(float[N,4] x, float[M,4] z) => (float y) { c = Greater (x, z)  y = Where (c, x, z) }",
        {"x": (3, 4), "z": (3, 4)},
        {"x": (2, 4), "z": (3, 4)},
        "input 'z': dimension 0 ('M') is 3, but input 'x' has M = 2",
    ),
    "an input of twice the size of another": (
        "(float[N,4] x, float[M,4] z) => (float y) { d = Concat <axis=0> (z, z)  y = Add (x, d) }",
        {"x": (6, 4), "z": (3, 4)},
        {"x": (4, 4), "z": (3, 4)},
        "the model was exported for inputs of which x.shape[0] == z.shape[0] * 2, "
        "got x.shape[0] = 4, z.shape[0] = 3",
    ),
    "pooled in two ways": (
        f"({IMAGE}) => (float y) {{ a = MaxPool <kernel_shape=[1,1], strides=[2,2]> (x) "
        "b = AveragePool <kernel_shape=[2,2], strides=[2,2]> (x)  y = Add (a, b) }",
        {"x": (1, 4, 6, 4)},
        {"x": (1, 4, 6, 9)},
        "the model was exported for inputs of which x.shape[3] % 2 == 0, got x.shape[3] = 9",
    ),
    "a number of pooled columns": (
        f"({IMAGE}) => (float y) <float[2] w = {{1,2}}> "
        "{ p = MaxPool <kernel_shape=[1,2], strides=[1,2]> (x)  y = Add (p, w) }",
        {"x": (1, 4, 3, 5)},
        {"x": (1, 4, 3, 3)},
        "the model was exported for inputs of which x.shape[3] // 2 == 2, got x.shape[3] = 3",
    ),
    "columns and rows of matrices": (
        "(float[1,H,3] x) => (float y) { t = Transpose <perm=[0,2,1]> (x) "
        "p = MaxPool <kernel_shape=[1], strides=[2]> (t)  "
        "q = AveragePool <kernel_shape=[2], strides=[2]> (t)  "
        "r = Transpose <perm=[0,2,1]> (q)  y = MatMul (p, r) }",
        {"x": (1, 4, 3)},
        {"x": (1, 5, 3)},
        "the model was exported for inputs of which x.shape[1] % 2 == 0, got x.shape[1] = 5",
    ),
    "rows of a matrix": (
        "(float[2,K] x) => (float y) <float[3,1] w = {1,2,3}> { y = MatMul (x, w) }",
        {"x": (2, 3)},
        {"x": (2, 4)},
        "input 'x': expected float32 [2, 3], got float32 [2, 4]",
    ),
    "rows of a matrix in an einsum": (
        "(float[2,K] x) => (float y) <float[3,1] w = {1,2,3}> "
        '{ y = Einsum <equation="ab, bc -> ac"> (x, w) }',
        {"x": (2, 3)},
        {"x": (2, 4)},
        "input 'x': expected float32 [2, 3], got float32 [2, 4]",
    ),
    "dimensions of an einsum beside those that dots stand for": (
        '(float[2,H,K] x, float[L,3,1] z) => (float y) { y = Einsum <equation="...ab,ba...->b..."> (x, z) }',
        {"x": (2, 3, 5), "z": (5, 3, 1)},
        {"x": (2, 3, 5), "z": (4, 3, 1)},
        "input 'z': dimension 0 ('L') is 4, but input 'x' has L = 5",
    ),
    "images resized by a file of one": (
        f'({IMAGE}) => (float y) <int64[4] s = {{1,4,8,8}}> {{ y = Resize <mode="linear"> (x, , , s) }}',
        {"x": (1, 4, 4, 2)},
        {"x": (2, 4, 4, 2)},
        "input 'x': expected float32 [1, 4, H, W], got float32 [2, 4, 4, 2]",
    ),
    "pixels of all images as those of one": (
        f"({IMAGE}) => (float y) <int64[2] s = {{1,-1}}> {{ a = Reshape (x, s) b = Flatten (x) "
        "y = Add (a, b) }",
        {"x": (1, 4, 6, 10)},
        {"x": (2, 4, 6, 10)},
        "input 'x': expected float32 [1, 4, H, W], got float32 [2, 4, 6, 10]",
    ),
    "one image": (
        "(float[N,4] x) => (float y) <int64[1] a = {0}> { y = Squeeze (x, a) }",
        {"x": (1, 4)},
        {"x": (2, 4)},
        "input 'x': expected float32 [1, 4], got float32 [2, 4]",
    ),
    "as many as it is expanded to": (
        "(float[N,4] x) => (float y) <int64[2] s = {3,4}> { y = Expand (x, s) }",
        {"x": (3, 4)},
        {"x": (2, 4)},
        "input 'x': expected float32 [3, 4], got float32 [2, 4]",
    ),
}


def model_of(graph: str) -> Any:
    return onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> open {graph}')


def inputs_of(sizes: Sizes) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    return {name: random.standard_normal(shape).astype("float32") for name, shape in sizes.items()}


@pytest.mark.parametrize("case", CASES)
def test_sizes_for_which_operands_fit(case: str, tmp_path: Path) -> None:
    graph, fitting, other, told = CASES[case]
    model = model_of(graph)
    relay_layout.compile(model).save(tmp_path / "open.rla")
    session = relay_layout.load(tmp_path / "open.rla")
    inputs = inputs_of(fitting)
    (wanted,) = reference_session(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(session.run(inputs)["y"], wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError) as error:
        session.run(inputs_of(other))
    assert str(error.value) == told


def test_extents_that_are_equal_for_all_sizes(tmp_path: Path) -> None:
    """TVM cannot tell; nothing is asked of the images."""
    model = model_of(
        f"({IMAGE}) => (float y) <int64[1] z = {{0}}, int64[1] o = {{1}}, int64[1] m = {{-1}}, "
        "int64[1] e = {9223372036854775807}, int64[1] a = {2}> "
        "{ b = Slice (x, o, e, a)  c = Slice (x, z, m, a)  y = Sub (b, c) }"
    )
    compiled = relay_layout.compile(model)
    assert not compiled.manifest.conditions
    compiled.save(tmp_path / "open.rla")
    inputs = inputs_of({"x": (2, 4, 5, 3)})
    (wanted,) = reference_session(model.SerializeToString()).run(None, inputs)
    np.testing.assert_array_equal(relay_layout.load(tmp_path / "open.rla").run(inputs)["y"], wanted)


def test_the_middle_of_a_table_of_positions(tmp_path: Path) -> None:
    """Bounds are divided toward zero, so that a part of odd height has a row too many."""
    model = model_of(
        f"(float[H,W] x) => (float y) <float[8,8] t = {{{','.join(map(str, range(64)))}}}, "
        "int64[2] e = {8,8}, int64[2] f = {4,4}, int64[2] o = {-1,-1}, int64[2] w = {2,2}, "
        "int64[1] m = {-1}> { s = Shape (x)  c = Sub (e, s)  b = Div (c, w)  n = Mul (o, s)  h = Div (n, w) "
        "d = Add (f, s)  q = Add (d, h)  r = Slice (t, b, q)  u = Reshape (r, m) "
        "v = Reshape (x, m)  y = Add (u, v) }"
    )
    relay_layout.compile(model).save(tmp_path / "open.rla")
    session = relay_layout.load(tmp_path / "open.rla")
    reference = reference_session(model.SerializeToString())
    for sizes in ((4, 6), (8, 2)):
        inputs = inputs_of({"x": sizes})
        np.testing.assert_allclose(session.run(inputs)["y"], reference.run(None, inputs)[0], rtol=1e-6)
    with pytest.raises(InputError, match="the model was exported for inputs of which"):
        session.run(inputs_of({"x": (4, 5)}))


def test_a_branch_asks_nothing_of_the_images() -> None:
    """It may never run."""
    model = model_of(
        f"({IMAGE}, bool c) => (float y) {TWICE} {{ y = If (c) <then_branch = even () => (float t) "
        f"{{ {HALVED} {DOUBLED} t = Add (u, x) }}, else_branch = other () => (float o) {{ o = Relu (x) }}> }}"
    )
    with pytest.raises(ModelError) as error:
        relay_layout.compile(model)
    assert "(Add) gives a result of unknown shape from [N,4,H // 2 * 2,W // 2 * 2] and [N,4,H,W]" in str(
        error.value
    )
