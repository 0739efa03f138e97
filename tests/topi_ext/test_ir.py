"""What passes and schedules ask of TIR."""

from tvm import tirx
from tvm.ir import TensorLoad

from topi_ext.ir import (
    conjunction,
    conjuncts,
    loads_of,
    nodes_of,
    occurrences,
    repeated,
    substitute,
    uses,
)

X, Y = (tirx.Var(name, "int64") for name in "xy")
TABLE = tirx.decl_buffer((8,), "int64", "table")


def test_inner_nodes_come_first() -> None:
    inner = tirx.BufferLoad(TABLE, [X])
    outer = tirx.BufferLoad(TABLE, [inner])
    assert [load.indices[0].same_as(X) for load in loads_of(outer + 1)] == [True, False]
    assert len(nodes_of(outer + X, (TensorLoad, tirx.Add))) == 3


def test_variables_are_told_by_identity() -> None:
    other = tirx.Var("x", "int64")
    assert uses(X + Y, X) and not uses(X + Y, other)
    assert occurrences(X * X + other, X) == 2
    replaced = substitute(X * X + other, {X: Y})
    assert (occurrences(replaced, Y), occurrences(replaced, other), uses(replaced, X)) == (2, 1, False)


def test_conditions_of_a_predicate_are_told_apart() -> None:
    below, at_most, floats = X < 4, Y <= 5, tirx.Var("f", "float32") <= 1.0
    first, second, third = conjuncts(tirx.all(below, at_most, floats))
    assert first.same_as(below) and third.same_as(floats)
    assert isinstance(second, tirx.LT) and int(second.b) == 6


def test_conditions_are_joined() -> None:
    first, second = X < 4, Y < 5
    joined = conjuncts(conjunction([first, second]))
    assert len(joined) == 2 and joined[0].same_as(first) and joined[1].same_as(second)
    assert conjunction([first]).same_as(first)
    assert int(conjunction([])) == 1


def test_what_all_lanes_have() -> None:
    assert repeated(tirx.Broadcast(X, 4)).same_as(X)
    assert repeated(X).same_as(X)
