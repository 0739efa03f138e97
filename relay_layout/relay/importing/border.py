"""What the integers stand for that go into a Relay function and come out of it."""

from collections.abc import Iterator, Mapping

import numpy as np

from relay_layout.artifact import Quantization
from relay_layout.quantization.border import Quantizations, agreed
from relay_layout.relay.operators.operator import Operator
from relay_layout.relay.operators.table import TABLE
from relay_layout.relay.syntax import children, post_order, tree

_SCALES = {"data": ("input_scale",), "weight": ("kernel_scale",), "x": ("scale", "input_scale")}
"""What an operand's scale may be called, other than by its name and ``_scale``."""

_SAME_NUMBERS = frozenset(("clip", "expand_dims", "nn.batch_flatten", "nn.max_pool2d", "reshape", "squeeze"))
"""Operators that give integers which stand for numbers as those of their operand do."""


def quantized_border(
    main: tree.Function, values: Mapping[str, np.ndarray]
) -> tuple[Quantizations, Quantizations]:
    """For each parameter of ``main`` and each of its outputs, in order, its quantization; None for no one.

    An input's is what all operators of relay.qnn that read it are told, an output's what the operator that
    gives it is told. A vector of scales, along an axis, is not stated. ``values`` are those of parameters
    that have one, by name.
    """
    told: dict[int, list[Quantization | None]] = {}
    bound: dict[int, tree.Expression] = {}
    for expression in post_order(main):
        if isinstance(expression, tree.Let):
            bound[id(expression.var)] = expression.value
        for place, operand in enumerate(children(expression)):
            told.setdefault(id(operand), []).append(_of_operand(expression, place, values))
    inputs = [agreed(told.get(id(parameter), [])) for parameter in main.params]

    def given(expression: tree.Expression) -> tree.Expression:
        while True:
            if isinstance(expression, tree.Let):
                expression = expression.body
            elif id(expression) in bound:
                expression = bound[id(expression)]
            elif isinstance(expression, tree.Call) and expression.op in _SAME_NUMBERS:
                expression = expression.args[0]
            else:
                return expression

    result = given(main.body)
    outputs = result.fields if isinstance(result, tree.Tuple) else (result,)
    return inputs, [_of_result(given(output), values) for output in outputs]


def _quantized_operator(expression: tree.Expression) -> Operator | None:
    if not isinstance(expression, tree.Call) or not isinstance(expression.op, str):
        return None
    simulated = "simulated" in expression.op
    return TABLE.get(expression.op) if expression.op.startswith("qnn.") and not simulated else None


def _of_operand(
    expression: tree.Expression, place: int, values: Mapping[str, np.ndarray]
) -> Quantization | None:
    operator = _quantized_operator(expression)
    if operator is None or place >= len(operator.operands):
        return None
    name = operator.operands[place]
    scales = (f"{name}_scale", *_SCALES.get(name, ()))
    return next(_told(expression, operator, scales, values), None)


def _of_result(expression: tree.Expression, values: Mapping[str, np.ndarray]) -> Quantization | None:
    operator = _quantized_operator(expression)
    return next(_told(expression, operator, ("output_scale",), values), None) if operator else None


def _told(
    call: tree.Expression, operator: Operator, scales: tuple[str, ...], values: Mapping[str, np.ndarray]
) -> Iterator[Quantization]:
    """The pairs of numbers that a call has as scale and zero point under one of the names."""
    named = dict(zip(operator.operands, children(call), strict=False))
    for name in scales:
        if name not in named:
            continue
        pair = [_number(named[operand], values) for operand in (name, name.replace("scale", "zero_point"))]
        if pair[0] is not None and pair[1] is not None and 0 < pair[0] < np.inf:
            yield Quantization((pair[0],), (int(pair[1]),))


def _number(expression: tree.Expression, values: Mapping[str, np.ndarray]) -> float | None:
    array = None
    if isinstance(expression, tree.Constant):
        array = expression.data
    elif isinstance(expression, tree.Var):
        array = values.get(expression.name)
    return None if array is None or array.size != 1 else float(array.reshape(())[()])
