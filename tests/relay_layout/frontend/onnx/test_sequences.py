"""Sequences of tensors and optional values beside ONNX Runtime, and what is refused of them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.onnx_refusals import refusal

RANDOM = np.random.default_rng(8)
X = RANDOM.standard_normal((2, 3, 4)).astype("float32")
W = RANDOM.standard_normal((2, 3, 4)).astype("float32")
PLACES = {
    f"p{number}" if number >= 0 else f"m{-number}": np.array(number, "int64") for number in range(-3, 4)
}
"""Positions: "p2" is 2 and "m2" is -2."""

_THREE = "a = Neg(x)  b = Exp(x)  c = Sin(x)  s = SequenceConstruct(a, b, c)"
_WHOLE = "y = ConcatFromSequence <axis=1> (t)"


def _nodes(nodes: str, **options: Any) -> dict[str, Any]:
    constants = {**PLACES, **options.pop("constants", {})}
    return {"nodes": nodes, "inputs": {"x": X}, "constants": constants, **options}


def _split(attributes: str, split: Any = None, at: str = "p1", **options: Any) -> dict[str, Any]:
    """The tensor at a position of a split ``x`` and the number of parts."""
    constants = {} if split is None else {"k": np.array(split, "int64")}
    nodes = f"s = SplitToSequence <{attributes}> (x{', k' if constants else ''})"
    return _nodes(
        f"{nodes}  y = SequenceAt(s, {at})  n = SequenceLength(s)",
        constants=constants,
        outputs={"y": "float32", "n": "int64"},
        **options,
    )


CASES: dict[str, dict[str, Any]] = {
    **{f"at_{at}": _nodes(f"{_THREE}  y = SequenceAt(s, {at})") for at in ("p0", "p2", "m1", "m3")},
    **{
        f"insert_{at}": _nodes(f"{_THREE}  t = SequenceInsert(s, x, {at})  {_WHOLE}")
        for at in ("p0", "p1", "p3", "m1", "m3")
    },
    **{
        f"erase_{at}": _nodes(f"{_THREE}  t = SequenceErase(s, {at})  {_WHOLE}")
        for at in ("p0", "p2", "m1", "m3")
    },
    "insert_at_the_end": _nodes(
        f"{_THREE}  t = SequenceInsert(s, x)  {_WHOLE}", ours=["concat", "exp", "negative", "sin"]
    ),
    "erase_the_last": _nodes(f"{_THREE}  t = SequenceErase(s)  {_WHOLE}"),
    "erase_and_insert": _nodes(
        f"{_THREE}  u = SequenceErase(s, m3)  t = SequenceInsert(u, a, m1)  y = SequenceAt(t, m1)"
    ),
    "empty": _nodes(f"e = SequenceEmpty()  u = SequenceInsert(e, x)  t = SequenceInsert(u, x, p0)  {_WHOLE}"),
    "empty_of_integers": _nodes(
        "e = SequenceEmpty <dtype=7> ()  i = Cast <to=7> (x)  t = SequenceInsert(e, i)"
        "  y = SequenceAt(t, p0)",
        outputs={"y": "int64"},
    ),
    "length_of_an_empty_one": _nodes(
        "e = SequenceEmpty()  y = SequenceLength(e)", outputs={"y": "int64"}, symbolic=False
    ),
    # The first sequence stays what it was.
    "two_of_one": _nodes(
        f"{_THREE}  t = SequenceInsert(s, x, p0)  u = SequenceErase(s)  v = SequenceAt(u, m1)"
        "  w = SequenceAt(s, m1)  z = Mul(v, w)  q = SequenceAt(t, p0)  y = Add(z, q)"
    ),
    "split": _split("axis=1", ours=["split"]),
    "split_first_axis": _split("axis=0", symbolic=False),
    "split_evenly": _split("axis=-1", 2),
    "split_remainder": _split("axis=2", 3),
    "split_by_more_than_there_is": _split("axis=2", 9, at="p0", ours=[]),
    "split_sizes": _split("axis=2", [1, 2, 1]),
    "split_one_size": _split("axis=2", [4], at="p0"),
    "split_without_axis": _split("axis=1, keepdims=0"),
    "split_by_one_without_axis": _split("axis=1, keepdims=0", 1),
    "split_sizes_keep_the_axis": _split("axis=1, keepdims=0", [1, 1, 1]),
    "split_and_concat": _nodes(f"t = SplitToSequence <axis=1> (x, p2)  {_WHOLE}", ours=["concat", "split"]),
    "concat_from_the_back": _nodes(f"{_THREE}  y = ConcatFromSequence <axis=-1> (s)"),
    "concat_one": _nodes("s = SequenceConstruct(x)  y = ConcatFromSequence <axis=1> (s)", ours=[]),
    **{
        f"stack_{axis}": _nodes(f"{_THREE}  y = ConcatFromSequence <axis={axis}, new_axis=1> (s)")
        for axis in (0, 3, -1, -4)
    },
    "stack_one": _nodes("s = SequenceConstruct(x)  y = ConcatFromSequence <axis=1, new_axis=1> (s)"),
    "constant_beside_a_tensor": _nodes(
        f"t = SequenceConstruct(x, w)  {_WHOLE}", constants={"w": W}, symbolic=False
    ),
    "identity": _nodes(f"{_THREE}  t = Identity(s)  y = SequenceAt(t, p1)", ours=["exp", "negative", "sin"]),
    "branch": _nodes(
        f"{_THREE}  i = Constant <value_int=0> ()  d = Cast <to=9> (i)"
        "  t = If <then_branch = t () => (seq(float) p) { p = SequenceErase(s) },"
        f"  else_branch = e () => (seq(float) q) {{ q = SequenceInsert(s, x, p1) }}> (d)  {_WHOLE}",
    ),
    # Constants stay constants.
    **{
        f"constants_{name}": _nodes(
            f"{nodes}  y = Add(x, v)",
            constants={"w": W, "axes": np.array([-1])},
            symbolic=False,
            ours=["add"],
        )
        for name, nodes in {
            "at": "s = SequenceConstruct(w, w)  v = SequenceAt(s, p1)",
            "split": "s = SplitToSequence <axis=1> (w)  v = SequenceAt(s, p2)",
            "split_without_axis": "s = SplitToSequence <axis=0, keepdims=0> (w)  v = SequenceAt(s, m1)",
            "concat": "s = SplitToSequence <axis=2> (w, p2)  t = SequenceInsert(s, w, p1)"
            "  u = SequenceErase(t)  j = ConcatFromSequence <axis=2> (u)  v = ReduceSum(j, axes)",
            "stack": "s = SplitToSequence <axis=0, keepdims=0> (w)"
            "  j = ConcatFromSequence <axis=-1, new_axis=1> (s)  v = ReduceSum <keepdims=0> (j, axes)",
        }.items()
    },
    "position_computed_from_constants": _nodes(f"{_THREE}  i = Add(p1, p1)  y = SequenceAt(s, i)"),
    # Shapes known up to symbolic extents
    "shape_of_scalars": _nodes(
        "d = Shape(x)  s = SplitToSequence <keepdims=0> (d)  n = SequenceAt(s, p0)  c = SequenceAt(s, p1)"
        "  r = SequenceConstruct(n, m1, c)  g = ConcatFromSequence <axis=0, new_axis=1> (r)"
        "  y = Reshape(x, g)",
        ours=["reshape"],
    ),
    "shape_of_vectors": _nodes(
        "d = Shape(x)  s = SplitToSequence(d, k)  n = SequenceAt(s, p0)  c = SequenceAt(s, p1)"
        "  r = SequenceConstruct(c, n)  g = ConcatFromSequence <axis=0> (r)  y = Reshape(x, g)",
        constants={"k": np.array([1, 2])},
        ours=["reshape"],
    ),
    "optional": _nodes("o = Optional(x)  y = OptionalGetElement(o)", ours=[]),
    "optional_sequence": _nodes(f"{_THREE}  o = Optional(s)  t = OptionalGetElement(o)  {_WHOLE}"),
    "optional_constant": _nodes(
        "o = Optional(g)  h = OptionalGetElement(o)  y = Reshape(x, h)",
        constants={"g": np.array([-1, 12])},
        ours=["reshape"],
        symbolic=False,
    ),
    "optional_is_there": _nodes(
        "o = Optional(x)  h = OptionalHasElement(o)"
        "  y = If <then_branch = t () => (float[?, ?, ?] p) { p = Neg(x) },"
        "  else_branch = e () => (float[?, ?, ?] q) { q = Exp(x) }> (h)",
        ours=["negative"],
    ),
    "optional_is_empty": _nodes(
        "o = Optional <type = float[2]> ()  h = OptionalHasElement(o)"
        "  y = If <then_branch = t () => (float[?, ?, ?] p) { p = Neg(x) },"
        "  else_branch = e () => (float[?, ?, ?] q) { q = Exp(x) }> (h)",
        ours=["exp"],
    ),
}


def test_agrees_with_onnx_runtime(case_name: str, agree: Callable[[str], None]) -> None:
    agree(case_name)


def _position(number: int) -> str:
    return f"i = Constant <value_int={number}> ()"


_PAIR = "s = SequenceConstruct(x, x)"


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        (
            f"{_PAIR}  {_position(2)}  y = SequenceAt(s, i)",
            "float[2,3] x",
            "node 'y' (SequenceAt) names position 2 of a sequence of 2 tensors",
        ),
        (
            f"{_PAIR}  {_position(-3)}  t = SequenceErase(s, i)  y = SequenceLength(t)",
            "float[2,3] x",
            "node 't' (SequenceErase) names position -3 of a sequence of 2 tensors",
        ),
        (
            f"{_PAIR}  {_position(3)}  t = SequenceInsert(s, x, i)  y = SequenceLength(t)",
            "float[2,3] x",
            "node 't' (SequenceInsert) names position 3 of a sequence of 2 tensors",
        ),
        (
            "s = SequenceEmpty()  t = SequenceErase(s)  y = SequenceLength(t)",
            "float[2,3] x",
            "node 't' (SequenceErase) names position -1 of a sequence of 0 tensors",
        ),
        (
            f"{_PAIR}  y = SequenceAt(s, i)",
            "float[2,3] x, int64 i",
            "node 'y' (SequenceAt) needs a constant for its input 1, not a tensor computed at run time: "
            "export the model with a number there, or fixed shapes",
        ),
        (
            "s = SplitToSequence(x, i)  y = SequenceLength(s)",
            "float[2,3] x, int64[2] i",
            "node 's' (SplitToSequence) needs a constant for its input 1, not a tensor computed at run time: "
            "export the model with a number there, or fixed shapes",
        ),
        (
            "s = SplitToSequence(x)  y = SequenceLength(s)",
            "float[N,3] x",
            "node 's' (SplitToSequence) gives as many tensors as the symbolic extent 'N' says: "
            "give the model's inputs fixed shapes (--input-shape)",
        ),
        (
            f"{_position(0)}  s = SplitToSequence(x, i)  y = SequenceLength(s)",
            "float[2,3] x",
            "node 's' (SplitToSequence) splits axis 0 of [2,3] into parts of 0",
        ),
        (
            "s = SplitToSequence(x)  y = SequenceLength(s)",
            "float[1025,3] x",
            "node 's' (SplitToSequence) splits axis 0 of [1025,3] into more than 1024 tensors",
        ),
        (
            "i = Constant <value_ints=[2, 2]> ()  s = SplitToSequence <axis=1> (x, i)  y = SequenceLength(s)",
            "float[2,3] x",
            "node 's' (SplitToSequence) splits axis 1 of [2,3] into 2 parts of [2, 2]",
        ),
        (
            "s = SequenceEmpty()  y = ConcatFromSequence <axis=0> (s)",
            "float[2,3] x",
            "node 'y' (ConcatFromSequence) joins the tensors of an empty sequence",
        ),
        (
            "s = SequenceConstruct(x, z)  y = ConcatFromSequence <axis=1> (s)",
            "float[N,3] x, float[M,3] z",
            "node 'y' (ConcatFromSequence) gives a result of unknown shape from [N,3] and [M,3]: "
            "give the model's inputs fixed shapes (--input-shape)",
        ),
        (
            "s = SequenceEmpty <dtype=8> ()  y = SequenceLength(s)",
            "float[2,3] x",
            "node 's' (SequenceEmpty) makes a sequence of the element type 8, which is not supported: "
            "make one of numbers",
        ),
        (
            "s = SequenceEmpty()  t = SequenceInsert(s, z)  y = SequenceLength(t)",
            "float[2,3] x, int64[2] z",
            "node 't' (SequenceInsert) puts a tensor of int64 into a sequence of float32",
        ),
        (
            f"{_PAIR}  y = Relu(s)",
            "float[2,3] x",
            "node 'y' (Relu) needs a tensor where it is given none",
        ),
        (
            f"{_PAIR}  y = GridSample(x, s)",
            "float[2,3,4,4] x",
            "node 'y' (GridSample) needs a tensor where it is given none",
        ),
        (
            "y = SequenceLength(x)",
            "float[2,3] x",
            "node 'y' (SequenceLength) needs a sequence where it is given none",
        ),
        (
            "o = Optional <type = float[2]> ()  y = OptionalGetElement(o)",
            "float[2,3] x",
            "node 'y' (OptionalGetElement) takes the element of an empty optional",
        ),
        (
            "y = SequenceConstruct(x)",
            "float[2,3] x",
            "output 'y' is not a tensor, which is not supported: export the model with tensors as outputs",
        ),
        (
            "y = SequenceLength(x)",
            "seq(float[2,3]) x",
            "input 'x' is not a numeric tensor, which is not supported: give the model tensors of numbers",
        ),
    ],
)
def test_unsupported(nodes: str, inputs: str, message: str) -> None:
    assert refusal(f"({inputs}) => (float[unknown] y) {{ {nodes} }}", 18) == message
