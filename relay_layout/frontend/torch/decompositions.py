"""Programs of PyTorch by operations that have converters."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._decomp import decomposition_table

from relay_layout.frontend.torch.checks import without_checks
from relay_layout.frontend.torch.complex_numbers import windows
from relay_layout.frontend.torch.complex_numbers.rewriting import in_real_numbers, is_complex
from relay_layout.frontend.torch.converters import is_convertible
from relay_layout.frontend.torch.graphs import all_nodes
from relay_layout.frontend.torch.operators import resizing
from relay_layout.frontend.torch.retracing import Unsuited, retraced
from relay_layout.frontend.torch.rules import (
    attention,
    bags,
    cells,
    copies,
    counting,
    elementwise,
    experts,
    fake_quantization,
    gamma,
    matrices,
    ordering,
    precise,
    products,
    random_numbers,
    recurrent,
    reductions,
    scattering,
    special,
    types_and_ranks,
    vision,
)
from relay_layout.frontend.torch.rules.rule import Rule

_RULES = {
    **attention.RULES,
    **bags.RULES,
    **cells.RULES,
    **copies.RULES,
    **counting.RULES,
    **elementwise.RULES,
    **fake_quantization.RULES,
    **gamma.RULES,
    **matrices.RULES,
    **ordering.RULES,
    **precise.RULES,
    **products.RULES,
    **random_numbers.RULES,
    **recurrent.RULES,
    **reductions.RULES,
    **scattering.RULES,
    **special.RULES,
    **types_and_ranks.RULES,
    **windows.RULES,
}

_WHOLE = (
    torch.ops.aten.instance_norm.default,
    torch.ops.aten.pad.default,
    torch.ops.aten.pixel_shuffle.default,
    *(getattr(torch.ops.aten, name.removesuffix(".vec")).vec for name in resizing.CONVERTERS),
)
"""Operations that are not to be taken apart: into index arithmetic, or into reshapes that fix the layout."""

_DROPOUTS = (torch.ops.aten.dropout.default, torch.ops.aten.feature_dropout.default)

_MOST_ROUNDS = 8
"""How often what operations are taken apart into is taken apart again."""


def apart(program: Any, label: str) -> Any:
    """The exported program by operations that have converters, as far as our rules or PyTorch's allow.

    It is left without operations that only check what its shapes say.

    ModelError for complex numbers that cannot be computed of real ones.
    """
    table = torch.export.default_decompositions()
    for operation in _WHOLE:
        table.pop(operation, None)
    rules = _with_rules(table)
    program = without_checks(_decomposed(program, rules))
    if in_real_numbers(program, label):
        program = _decomposed(program, rules)
    for _ in range(_MOST_ROUNDS):
        lacking = set(_without_converters(program))
        further = {one: decomposition_table[one] for one in lacking & {*decomposition_table}}
        if not further:
            break
        program = _by(program, _with_rules({**table, **further}))
    return program


def _without_converters(program: Any) -> Iterator[Any]:
    """Operations to be taken apart: complex tensors that are left are computed before the program runs."""
    for node in all_nodes(program):
        name = getattr(node.target, "__name__", "")
        if node.op == "call_function" and not is_convertible(name) and not is_complex(node):
            yield node.target


def _decomposed(program: Any, table: dict[Any, Rule]) -> Any:
    """The program by the rules of ``table``, where a view may be a copy if it has to.

    What is taken apart may lie otherwise than what the program has a view of: attention's result does.
    """
    try:
        return _by(program, table)
    except (RuntimeError, ValueError):
        views = [node for node in all_nodes(program) if node.target is torch.ops.aten.view.default]
        if not views:
            raise
    with _instead([(node, torch.ops.aten.reshape.default, node.args) for node in views]):
        return _by(program, table)


def _by(program: Any, table: Mapping[Any, Rule]) -> Any:
    try:
        return retraced(program, table)
    except Unsuited:
        with _instead(_dropouts_of_no_effect(program)):
            return program.run_decompositions(dict(table))


_Call = tuple[Any, Any, tuple[Any, ...]]
"""A node, the operation that it is to call, and with which arguments."""


@contextmanager
def _instead(calls: Sequence[_Call]) -> Iterator[None]:
    """Nodes that call something else meanwhile: the program is its owner's."""
    before = [(node, node.target, node.args) for node, _, _ in calls]
    _call(calls)
    try:
        yield
    finally:
        _call(before)


def _call(calls: Sequence[_Call]) -> None:
    for node, target, arguments in calls:
        node.target, node.args = target, arguments


def _dropouts_of_no_effect(program: Any) -> list[_Call]:
    """Those of inference as their operand, of which PyTorch's decompositions make a copy.

    A change of one would not be seen by way of the other.
    """
    return [
        (node, torch.ops.aten.alias.default, node.args[:1])
        for node in all_nodes(program)
        if node.op == "call_function" and node.target in _DROPOUTS and node.args[2] is False
    ]


def _with_rules(table: Mapping[Any, Rule]) -> dict[Any, Rule]:
    """Our rules, and those of ``table`` for what ours leave as it is."""
    own = {**_RULES, **experts.rules(), **vision.rules()}
    return {**table, **{operation: _first(rule, table.get(operation)) for operation, rule in own.items()}}


def _first(rule: Rule, other: Rule | None) -> Rule:
    def decompose(*arguments: Any, **options: Any) -> Any:
        result = rule(*arguments, **options)
        return other(*arguments, **options) if result is NotImplemented and other is not None else result

    return decompose
