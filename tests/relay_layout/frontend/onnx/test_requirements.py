"""Open sizes that a graph cannot have are refused in each call, as ONNX Runtime refuses them."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import InputError, ModelError
from tests.onnx_reference import reference_session

Shape = tuple[int, ...]

CASES: dict[str, tuple[str, Shape, Shape, str]] = {
    "a batch that is held": (
        "(float[N,4,1,1] x) => (float y) <int64[2] s = {1,4}> { y = Reshape (x, s) }",
        (1, 4, 1, 1),
        (2, 4, 1, 1),
        "x.shape[0] == 1, got x.shape[0] = 2",
    ),
    "what is left over": (
        "(float[N,3] x) => (float y) <int64[2] s = {-1,4}> { y = Reshape (x, s) }",
        (4, 3),
        (3, 3),
        "(x.shape[0] * 3) % 4 == 0, got x.shape[0] = 3",
    ),
    "parts": (
        "(float[N,4] x) => (float y, float z) <int64[2] s = {2,3}> { y, z = Split <axis=0> (x, s) }",
        (5, 4),
        (7, 4),
        "x.shape[0] == 5, got x.shape[0] = 7",
    ),
    "a row that is picked": (
        "(float[N,4] x) => (float y) <int64[2] s = {1,3}> { y = Gather <axis=0> (x, s) }",
        (4, 4),
        (2, 4),
        "x.shape[0] > 3, got x.shape[0] = 2",
    ),
    "a row from the end": (
        "(float[N,4] x) => (float y) <int64[1] s = {-3}> { y = Gather <axis=0> (x, s) }",
        (3, 4),
        (2, 4),
        "x.shape[0] > 2, got x.shape[0] = 2",
    ),
    "rows from the third of the end back": (
        "(float[N,4] x) => (float y) <int64[1] s = {-3}, int64[1] e = {-9223372036854775807}, "
        "int64[1] a = {0}, int64[1] t = {-2}> { y = Slice (x, s, e, a, t) }",
        (5, 4),
        (2, 4),
        "x.shape[0] > 2, got x.shape[0] = 2",
    ),
    "blocks": (
        "(float[1,2,H,W] x) => (float y) { y = SpaceToDepth <blocksize=2> (x) }",
        (1, 2, 4, 6),
        (1, 2, 4, 5),
        "x.shape[3] % 2 == 0, got x.shape[3] = 5",
    ),
    "a table cut to the sequence": (
        "(float[1,S,2] x) => (float y) <float[1,3,2] t = {1,2,3,4,5,6}, int64[1] z = {0}, int64[1] a = {1}>"
        " { n = Shape <start=1, end=2> (x)  p = Slice (t, z, n, a)  y = Add (x, p) }",
        (1, 3, 2),
        (1, 4, 2),
        "x.shape[1] <= 3, got x.shape[1] = 4",
    ),
    "rows of a table by numbers that are counted": (
        "(float[1,S,2] x) => (float y) <float[3,2] t = {1,2,3,4,5,6}, int64 z = {0}, int64 a = {1},"
        " int64[1] f = {0}> { d = Shape <start=1, end=2> (x)  n = Squeeze (d)  r = Range (z, n, a)"
        "  i = Unsqueeze (r, f)  p = Gather (t, i)  y = Add (x, p) }",
        (1, 3, 2),
        (1, 4, 2),
        "x.shape[1] <= 3, got x.shape[1] = 4",
    ),
    "two tables cut to the sequence": (
        "(float[1,S,2] x) => (float y) <float[1,3,2] t = {1,2,3,4,5,6}, float[1,2,2] u = {1,2,3,4},"
        " int64[1] z = {0}, int64[1] a = {1}>"
        " { n = Shape <start=1, end=2> (x)  p = Slice (t, z, n, a)  q = Slice (u, z, n, a)"
        " v = Add (x, p)  y = Mul (v, q) }",
        (1, 2, 2),
        (1, 3, 2),
        "x.shape[1] <= 2, got x.shape[1] = 3",
    ),
    "a mask cut to the sequence": (
        "(float[1,S,S] x) => (float y) <float[1,2,2] t = {1,2,3,4}, int64[2] z = {0,0}, int64[2] a = {1,2}>"
        " { n = Shape <start=1, end=3> (x)  p = Slice (t, z, n, a)  y = Add (x, p) }",
        (1, 2, 2),
        (1, 3, 3),
        "x.shape[1] <= 2, got x.shape[1] = 3",
    ),
    "a name with a dot": (
        "(float[N,4] x) => (float y) <int64[2] s = {1,4}> { y = Reshape (x, s) }",
        (1, 4),
        (2, 4),
        "input('x.1').shape[0] == 1, got input('x.1').shape[0] = 2",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_sizes_that_a_graph_cannot_have(case: str, tmp_path: Path) -> None:
    graph, fitting, other, told = CASES[case]
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> open {graph}')
    name = "x.1" if "dot" in case else "x"
    for entry in (model.graph.input[0], model.graph.node[0]):
        if entry is model.graph.input[0]:
            entry.name = name
        else:
            entry.input[0] = name
    relay_layout.compile(model).save(tmp_path / "open.rla")
    session, reference = (
        relay_layout.load(tmp_path / "open.rla"),
        reference_session(model.SerializeToString()),
    )
    image = np.random.default_rng(0).standard_normal(fitting).astype("float32")
    for found, wanted in zip(
        session.run({name: image}).values(), reference.run(None, {name: image}), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
    with pytest.raises(InputError) as error:
        session.run({name: np.zeros(other, "float32")})
    assert str(error.value) == f"the model was exported for inputs of which {told}"


def test_more_rows_than_a_table_has() -> None:
    """As many for each image of an open batch, so that the numbers are known but for how often."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> open (float[N,4,2] x) => (float y)'
        " <float[3,2] t = {1,2,3,4,5,6}, int64 z = {0}, int64 a = {1}>"
        " { d = Shape <start=1, end=2> (x)  n = Squeeze (d)  r = Range (z, n, a)"
        "  s = Shape <end=2> (x)  e = Expand (r, s)  p = Gather (t, e)  y = Add (x, p) }"
    )
    with pytest.raises(ModelError, match=r"node 'p' \(Gather\) needs 4 elements along an axis of 3"):
        relay_layout.compile(model)


def test_matrices_that_may_not_fit(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 18]> open (float[1,2,K] x, float[1,4,M] z) => (float y) '
        "{ p = MaxPool <kernel_shape=[2], strides=[2]> (x)  q = MaxPool <kernel_shape=[3], strides=[3]> (z) "
        "t = Transpose <perm=[0,2,1]> (q)  y = MatMul (p, t) }"
    )
    relay_layout.compile(model).save(tmp_path / "open.rla")
    session = relay_layout.load(tmp_path / "open.rla")
    random = np.random.default_rng(0)
    fitting, other = (
        {"x": random.random((1, 2, 7), "float32"), "z": random.random((1, 4, count), "float32")}
        for count in (10, 8)
    )
    (wanted,) = reference_session(model.SerializeToString()).run(None, fitting)
    np.testing.assert_allclose(session.run(fitting)["y"], wanted, rtol=1e-5)
    told = "the model was exported for inputs of which .* got x.shape\\[2\\] = 7, z.shape\\[2\\] = 8"
    with pytest.raises(InputError, match=told):
        session.run(other)


def test_slices_of_what_was_joined_ask_nothing() -> None:
    """A cache of words that is empty before the first one."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 19]> g (float[1,P,2] past, float[1,T,2] new) => (float y) '
        "<int64[1] z = {0}, int64[1] a = {1}> { j = Concat <axis=1> (past, new)  "
        "p = Shape <start=1, end=2> (past)  y = Slice (j, z, p, a) }"
    )
    assert not relay_layout.compile(model).manifest.conditions
