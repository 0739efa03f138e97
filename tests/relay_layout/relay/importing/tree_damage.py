"""Relay modules with wrong attributes, operands and types, by a seed."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from relay_layout.relay.operators import TABLE, declared
from relay_layout.relay.syntax import Call, Expression, Function, Module, TensorType, Var, post_order
from relay_layout.relay.syntax.tree import Constant, If, Let, Tuple, TupleGetItem

_VALUES: list[Any] = [
    *(0, 1, -1, 2, 3, 7, -7, 65, 1000, 2**31, -(2**31), 2**62, 2**63 - 1),
    *(0.0, -1.5, 1e30, float("inf"), float("nan")),
    *(
        "",
        "NCHW",
        "NHWC",
        "NCHW4c",
        "NCHW0c",
        "nchw",
        "HWIO",
        "OIHW4i4o",
        "bilinear",
        "float32",
        "int99",
        "\n",
    ),
    *(
        None,
        True,
        False,
        (),
        (0,),
        (1, 1),
        (-1, -1),
        (2, 2, 2),
        (0, 0, 0, 0),
        (1, 2, 3, 4, 5),
        ((1, 1), (1, 1)),
    ),
    *((10**9,), (2**40, 2**40), (None, 1), ("a", 1), (1.5, 2.5), ((), ()), {"a": 1}),
]
_EXTENTS = [0, 1, 2, 3, 5, 7, 16, 64, 10**6, 10**12, None]


def damaged_tree(module: Module, seed: int) -> Module:
    """A copy with one to three things wrong."""
    rng = random.Random(seed)
    main = module.functions["main"]
    for _ in range(rng.randint(1, 3)):
        main = _other_parameter(main, rng) if main.params and rng.random() < 0.2 else _other_call(main, rng)
    return Module({**module.functions, "main": main}, module.metadata)


def _other_parameter(main: Function, rng: random.Random) -> Function:
    place = rng.randrange(len(main.params))
    old = main.params[place]
    if not isinstance(old.type, TensorType):
        return main
    shape = list(old.type.shape)
    kind = rng.randrange(3)
    if kind == 0 and shape:
        shape[rng.randrange(len(shape))] = rng.choice(_EXTENTS)
    elif kind == 1:
        shape = shape[:-1] if rng.random() < 0.5 else [*shape, rng.choice(_EXTENTS)]
    dtype = rng.choice([old.type.dtype, "int8", "float16", "bool", "int64"]) if kind == 2 else old.type.dtype
    new = Var(old.name, TensorType(tuple(shape), dtype))
    return rebuilt(main, {id(old): new})


def _other_call(main: Function, rng: random.Random) -> Function:
    calls = [part for part in post_order(main) if isinstance(part, Call) and isinstance(part.op, str)]
    if not calls:
        return main
    old = rng.choice(calls)
    attributes: dict[str, Any] = dict(old.attrs.given)
    operands = list(old.args)
    operator: Any = old.op
    kind = rng.randrange(6)
    if kind <= 2:
        row = TABLE.get(str(old.op))
        names = list(declared(row.attributes if row else None)) or ["axis"]
        attributes[rng.choice(names)] = rng.choice(_VALUES)
    elif kind == 3 and operands:
        operands[rng.randrange(len(operands))] = rng.choice([rng.choice(operands), rng.choice(main.params)])
    elif kind == 4:
        operator = rng.choice(sorted(TABLE))
        if rng.random() < 0.7:
            wanted = len(TABLE[operator].operands)
            operands = (operands * wanted)[:wanted]
            attributes = {name: value for name, value in attributes.items() if rng.random() < 0.3}
    elif attributes:
        attributes.pop(rng.choice(sorted(attributes)))
    return rebuilt(main, {id(old): replace(old, op=operator, args=tuple(operands), attrs=attributes)})


def rebuilt(main: Function, changes: Mapping[int, Expression]) -> Function:
    """The function with expressions replaced, by identity."""
    new: dict[int, Any] = dict(changes)
    for part in post_order(main):
        if id(part) in new:
            continue
        made: Any = part
        if isinstance(part, Call):
            op = part.op if isinstance(part.op, str) else new[id(part.op)]
            made = replace(part, op=op, args=tuple(new[id(operand)] for operand in part.args))
        elif isinstance(part, Tuple):
            made = Tuple(tuple(new[id(field)] for field in part.fields))
        elif isinstance(part, TupleGetItem):
            made = TupleGetItem(new[id(part.tuple_value)], part.index)
        elif isinstance(part, Let):
            made = replace(part, value=new[id(part.value)], body=new[id(part.body)])
        elif isinstance(part, If):
            made = If(new[id(part.condition)], new[id(part.true_branch)], new[id(part.false_branch)])
        elif isinstance(part, Function):
            parameters = tuple(new.get(id(parameter), parameter) for parameter in part.params)
            made = replace(part, params=parameters, body=new[id(part.body)], ret_type=None)
        elif isinstance(part, Constant):
            made = part
        new[id(part)] = made
    return new[id(main)]
