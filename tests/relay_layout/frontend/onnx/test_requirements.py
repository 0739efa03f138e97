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
    "elements that are picked": (
        "(float[N,4] x) => (float y) <int64[1,2] s = {1,3}> { y = GatherElements <axis=0> (x, s) }",
        (4, 4),
        (3, 4),
        "x.shape[0] > 3, got x.shape[0] = 3",
    ),
    "places that are picked": (
        "(float[2,N] x) => (float y) <int64[2,2] s = {1,-3,0,1}> { y = GatherND (x, s) }",
        (2, 3),
        (2, 2),
        "x.shape[1] > 2, got x.shape[1] = 2",
    ),
    "a row from the end": (
        "(float[N,4] x) => (float y) <int64[1] s = {-3}> { y = Gather <axis=0> (x, s) }",
        (3, 4),
        (2, 4),
        "x.shape[0] > 2, got x.shape[0] = 2",
    ),
    "an axis that goes where it has one element": (
        "(float[1,2,T] x) => (float y) <int64 a = {2}, int64 o = {1}, int64[1] k = {2}>"
        " { p = MaxPool <kernel_shape=[4], strides=[4]> (x)  s = Shape (p)  n = Gather (s, a)"
        "  c = Equal (n, o)  y = If <then_branch = t () => (float[] q) { q = Squeeze (p, k) },"
        " else_branch = f () => (float[] r) { r = Identity (p) }> (c) }",
        (1, 2, 7),
        (1, 2, 8),
        "x.shape[2] // 4 == 1, got x.shape[2] = 8",
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
    "blocks of an open number of channels": (
        "(float[1,C,2,3] x) => (float y) { y = DepthToSpace <blocksize=2> (x) }",
        (1, 8, 2, 3),
        (1, 6, 2, 3),
        "x.shape[1] % 4 == 0, got x.shape[1] = 6",
    ),
    "a row that each trip of a loop reads": (
        "(float[N,2] x) => (float y) <int64 t = {2}, bool g = {1}, int64[1] k = {0}, int64[1] o = {1}>"
        " { q = Relu (x)  y = Loop <body = b (int64 i, bool c) => (bool d, float[] r)"
        " { d = Identity (c)  p = Slice (q, k, o, k)  r = Squeeze (p, k) }> (t, g) }",
        (2, 2),
        (0, 2),
        "x.shape[0] > 0, got x.shape[0] = 0",
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


def test_what_a_branch_asks_is_asked_where_it_runs() -> None:
    """Of an axis that goes, and of states, as detectors of speech have them for two rates."""
    steps = " p = MaxPool <kernel_shape=[{0}], strides=[{0}]> (x)  q = Squeeze (p, k)  v = Unsqueeze (q, z)"
    steps += "  h, {1} = RNN <hidden_size=3> (v, w, r, , , s) "
    graph = (
        "agraph (float[N,2,T] x, float[1,M,3] s, bool c) => (float y)"
        " <int64[1] k = {2}, int64[1] z = {0}, float[1,3,2] w = {0.1,0.2,0.3,0.4,0.5,0.6},"
        " float[1,3,3] r = {0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9}>"
        f" {{ y = If <then_branch = t () => (float[] a) {{{steps.format(4, 'a')}}},"
        f" else_branch = f () => (float[] b) {{{steps.format(6, 'b')}}}> (c) }}"
    )
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 18]> {graph}')
    session, reference = relay_layout.compile(model).session(), reference_session(model.SerializeToString())
    random = np.random.default_rng(0)
    for batch, size, short in ((2, 5, True), (3, 9, False)):
        feed = {"x": random.standard_normal((batch, 2, size)).astype("float32")}
        feed |= {"s": random.standard_normal((1, batch, 3)).astype("float32"), "c": np.array(short)}
        (wanted,) = reference.run(None, feed)
        np.testing.assert_allclose(session.run(feed)["y"], wanted, rtol=1e-5, atol=1e-6)
    with pytest.raises(InputError) as error:
        session.run(feed | {"c": np.array(True)})
    assert str(error.value) == "inputs: dimension 2 of one is 2, where the model's extents make it 1"


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
