"""Random Relay modules."""

import numpy as np
from hypothesis import strategies as st

from relay_layout.relay.syntax import (
    AttributeValue,
    Call,
    Constant,
    Expression,
    Function,
    FuncType,
    GlobalVar,
    If,
    Let,
    Module,
    TensorType,
    Tuple,
    TupleGetItem,
    TupleType,
    Var,
)

DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64")
GLOBALS = ("main", "other.one")

names = st.sampled_from(
    ["x", "y", "p", "p.0", "p.1", "input.1", "conv/weight:0", "a b", "", "0", "%", "let", "é", "x_1", "_"]
)
shapes = st.lists(st.one_of(st.none(), st.integers(0, 9)), max_size=4).map(tuple)
tensor_types = st.builds(TensorType, shapes, st.sampled_from((*DTYPES, "bfloat16")))
types = st.recursive(
    tensor_types,
    lambda inner: st.one_of(
        st.builds(TupleType, st.lists(inner, max_size=3).map(tuple)),
        st.builds(FuncType, st.lists(inner, max_size=2).map(tuple), inner),
    ),
    max_leaves=4,
)


@st.composite
def constants(draw: st.DrawFn) -> Constant:
    """Scalars and small tensors with any bits, NaNs included."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    shape = draw(st.sampled_from([(), (), (1,), (2, 3), (0, 2)]))
    size = int(np.prod(shape)) * dtype.itemsize
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if dtype == np.bool_:
        data = data % 2
    return Constant(data.view(dtype).reshape(shape).copy())


values: st.SearchStrategy[AttributeValue] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        constants(),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=6,
)
attributes = st.dictionaries(
    st.sampled_from(["axis", "strides", "relay.shape_only", "if"]), values, max_size=3
)


@st.composite
def functions(draw: st.DrawFn, outer: tuple[Expression, ...] = (), depth: int = 0) -> Function:
    """A function that may use expressions from around it."""
    params = tuple(Var(draw(names), draw(st.none() | types)) for _ in range(draw(st.integers(0, 3))))
    body = draw(blocks((*outer, *params), depth))
    return Function(params, body, draw(st.none() | types), draw(attributes))


@st.composite
def blocks(draw: st.DrawFn, outer: tuple[Expression, ...], depth: int) -> Expression:
    """An expression over what is in scope; what it is made of may be used any number of times."""
    pool: list[Expression] = [*outer, Constant(np.array(draw(st.integers(-5, 5)), "int32"))]
    lets: list[tuple[Var, Expression]] = []
    for _ in range(draw(st.integers(0, 6))):
        operand = st.sampled_from(pool)
        kind = draw(
            st.sampled_from(["call", "call", "tuple", "field", "let", "constant", "if", "fn", "apply"])
        )
        if kind == "call":
            op = draw(st.sampled_from(["add", "nn.conv2d", "metal"]))
            pool.append(Call(op, tuple(draw(st.lists(operand, max_size=3))), draw(attributes)))
        elif kind == "apply":
            callee = draw(st.one_of(operand, st.sampled_from(GLOBALS).map(GlobalVar)))
            pool.append(Call(callee, tuple(draw(st.lists(operand, max_size=2)))))
        elif kind == "tuple":
            pool.append(Tuple(tuple(draw(st.lists(operand, max_size=3)))))
        elif kind == "field":
            pool.append(TupleGetItem(draw(operand), draw(st.integers(0, 2))))
        elif kind == "constant":
            pool.append(draw(constants()))
        elif kind == "let":
            variable = Var(draw(names), draw(st.none() | types))
            lets.append((variable, draw(operand)))
            pool.append(variable)
        elif depth < 2 and kind == "if":
            pool.append(
                If(draw(operand), draw(blocks(tuple(pool), depth + 1)), draw(blocks(tuple(pool), depth + 1)))
            )
        elif depth < 2:
            pool.append(draw(functions(tuple(pool), depth + 1)))
    result: Expression = Tuple(tuple(pool)) if draw(st.booleans()) else draw(st.sampled_from(pool[-3:]))
    for variable, value in reversed(lets):
        result = Let(variable, value, result)
    return result


modules = st.tuples(functions(), functions()).map(lambda pair: Module(dict(zip(GLOBALS, pair, strict=True))))
