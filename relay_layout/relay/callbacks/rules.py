"""Relay's callbacks as rules of the layout engine.

What a script registered for an operator, to alter, convert or infer its layouts, stands in the place of the
operator's row.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from string import ascii_uppercase
from typing import Any, TypeVar

from tvm import relax

from relay_layout.errors import LayoutError, ModelError
from relay_layout.graph import Graph, Node, Value
from relay_layout.ir import Expression
from relay_layout.layout import Layout
from relay_layout.ops import Offers, Rule, Rules, Signature, Wanted, table_rule
from relay_layout.ops.dimension_names import DimensionNames
from relay_layout.relay.callbacks import ALTER, CONVERT, INFER, InferCorrectLayoutOutput
from relay_layout.relay.callbacks.conventions import convert_by_convention
from relay_layout.relay.callbacks.node_view import NodeView, view
from relay_layout.relay.importing.types import to_relay
from relay_layout.relay.operators import TABLE, Attributes, complete
from relay_layout.relay.syntax import free_variables, relay_types, tree
from relay_layout.relay.trees.inference import type_of
from relay_layout.targets.convolutions import CONVOLUTION_AXES

_log = logging.getLogger("relay_layout")

_Made = TypeVar("_Made")

Ask = Callable[[Node, NodeView], tree.Expression | None]
"""Asks a callback for what takes a node's place; None leaves the node alone."""


def rules_for(
    graph: Graph,
    desired: Mapping[str, Sequence[str]] | None,
    alter: bool,
    left_alone: dict[str, str],
) -> Rules:
    """The rules of a graph under a request: callbacks first, then inference, then the operator table.

    Under ConvertLayout operators with an entry in ``desired`` are asked, under AlterOpLayout (``alter``) all.
    Convolutions without a callback of the caller's stay with the engine, which has costs for them.
    ``left_alone`` takes down, by node name, what a callback did that left a node as it was.
    """
    left_out: set[str] = set()

    def converted(node: Node, seen: NodeView) -> tree.Expression | None:
        name = seen.row.name
        callback = CONVERT.get(name)
        if desired and name not in desired and callback is not None and name not in left_out:
            left_out.add(name)
            _log.warning("desired layouts have no entry for %s; it follows its neighbours", name)
        if not desired or name not in desired:
            return None
        if callback is not None:
            answer = CONVERT.ask(name, seen.attributes, list(seen.operands), seen.types, list(desired[name]))
            return noted(node, seen, answer, "convert")
        if node.operator not in CONVOLUTION_AXES:
            return convert_by_convention(seen, desired[name])
        return None

    def altered(node: Node, seen: NodeView) -> tree.Expression | None:
        if ALTER.get(seen.row.name) is None:
            return None
        out_type = to_relay(node.expression.ty)
        answer = ALTER.ask(seen.row.name, seen.attributes, list(seen.operands), seen.types, out_type)
        return noted(node, seen, answer, "alter")

    def noted(
        node: Node, seen: NodeView, answer: tree.Expression | None, kind: str
    ) -> tree.Expression | None:
        if answer is None or _is_same(answer, seen):
            returned = "None" if answer is None else "the call as it was"
            left_alone[node.name] = f"the {kind} layout callback for {seen.row.name} returned {returned}"
        return answer

    if alter and ALTER:
        return _rules(graph, altered, left_alone)
    if INFER or (desired and not CONVOLUTION_AXES.keys() >= set(desired)) or (desired and CONVERT):
        return _rules(graph, converted, left_alone)
    return table_rule


def _rules(graph: Graph, ask: Ask, left_alone: dict[str, str]) -> Rules:
    names = DimensionNames(graph)
    found: dict[Node, Rule | None] = {}

    def rule_of(node: Node) -> Rule | None:
        if node not in found:
            rule = found[node] = _rule(node, ask, names)
            if isinstance(rule, _Replaced) and rule.refuses:
                left_alone[node.name] = rule.refuses
        return found[node]

    return rule_of


def _rule(node: Node, ask: Ask, names: DimensionNames) -> Rule | None:
    seen = view(node)
    if seen is not None:
        answer = ask(node, seen)
        if answer is not None and not _is_same(answer, seen):
            return _Replaced(node, seen, answer, names)
        if INFER.get(seen.row.name) is not None:
            return _Inferred(seen, names)
    return table_rule(node)


def _is_same(answer: tree.Expression, seen: NodeView) -> bool:
    return (
        isinstance(answer, tree.Call)
        and answer.op == seen.row.name
        and len(answer.args) == len(seen.operands)
        and all(new is old for new, old in zip(answer.args, seen.operands, strict=True))
        and dict(complete(seen.row.name, seen.row.attributes, answer.attrs.given)) == dict(seen.attributes)
    )


def layouts_of(
    row_name: str, attributes: Mapping[str, Any], operands: int, results: int = 1
) -> tuple[list[str], list[str]]:
    """The layouts that an operator's attributes name, by operand and result; "" for those they do not."""
    inputs, outputs = [""] * operands, [""] * results
    data = attributes.get("data_layout") or attributes.get("layout") or ""
    if operands:
        inputs[0] = data
    kernel = attributes.get("kernel_layout") or ""
    if kernel and operands > 1:
        deformable = row_name == "nn.deformable_conv2d"
        inputs[2 if deformable else 1] = kernel
        if deformable:
            inputs[1] = data
    outputs[0] = attributes.get("out_layout") or data
    return inputs, outputs


class _Replaced(Rule):
    """A node in whose place a callback put another call."""

    decides = True
    refuses: str = ""

    def __init__(self, node: Node, seen: NodeView, answer: tree.Expression, names: DimensionNames) -> None:
        if not isinstance(answer, tree.Call):
            raise LayoutError(f"the callback for {seen.row.name} returned {answer!r}, which is no call")
        self._seen = seen
        self._answer = answer
        self._signature = self._signature_of(node, answer, names)
        self.refuses = _misfit(node, self._signature)
        """What is wrong with what the callback chose; "" where it fits."""

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """The one that the callback chose, where it fits."""
        if not self.refuses:
            yield self._signature

    def _signature_of(self, node: Node, answer: tree.Call, names: DimensionNames) -> Signature:
        seen = self._seen
        name = answer.op if isinstance(answer.op, str) else ""
        row = TABLE.get(name)
        if row is None:
            raise LayoutError(
                f"the callback for {seen.row.name} returned a call of '{name}', no operator of Relay"
            )
        given = complete(name, row.attributes, answer.attrs.given)
        old_in, old_out = _told(seen.row.name, seen.attributes, None, seen, node, names)
        new_in, new_out = _told(name, given, None, seen, node, names)
        answer = _laid_out(answer, seen, old_in, new_in)
        layouts = [value.identity for value in node.operands]
        for position, argument in enumerate(answer.args):
            for place, placeholder in enumerate(seen.placeholders):
                if argument is placeholder and position < len(new_in):
                    old = old_in[seen.operands.index(placeholder)] if placeholder in seen.operands else ""
                    layouts[place] = _relative(new_in[position], old, node.operands[place], seen.row.name)
        results = [
            _relative(new, old, value, seen.row.name)
            for new, old, value in zip(
                _padded(new_out, len(node.results)),
                _padded(old_out, len(node.results)),
                node.results,
                strict=True,
            )
        ]

        def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
            return _made(seen.row.name, lambda: seen.build(builder, answer, operands))

        return Signature(tuple(layouts), tuple(results), replacement=replacement, by_callback=True)


def _laid_out(answer: tree.Call, seen: NodeView, old: Sequence[str], new: Sequence[str]) -> tree.Call:
    """The call with what the callback computes of operands transformed, since it lies as the operands did.

    Where an argument has another number of dimensions, the callback has transformed it itself.
    """
    given = {id(placeholder) for placeholder in seen.placeholders}
    computed = [argument for argument in answer.args if id(argument) not in given]
    given -= {id(variable) for argument in computed for variable in free_variables(argument)}
    arguments = list(answer.args)
    for position, (argument, before, after) in enumerate(zip(arguments, old, new, strict=False)):
        if id(argument) in given or not before or not after or before == after:
            continue
        if isinstance(argument, tree.Call) and argument.attrs.get("dst_layout") == after:
            continue
        kind = _made(seen.row.name, partial(type_of, argument))
        if isinstance(kind, relay_types.TensorType) and len(kind.shape) == len(before):
            layouts: dict[str, tree.AttributeValue] = {"src_layout": before, "dst_layout": after}
            arguments[position] = tree.Call("layout_transform", (argument,), layouts)
    return tree.Call(answer.op, tuple(arguments), answer.attrs)


def _made(name: str, make: Callable[[], _Made]) -> _Made:
    """What is made of a callback's answer; LayoutError where that cannot be."""
    try:
        return make()
    except ModelError as error:
        told = str(error).removeprefix("expression: ")
        raise LayoutError(f"the callback for {name} returned what fails: {told}") from None


class _Inferred(Rule):
    """An operator for which the caller registered how it carries layouts."""

    @property
    def refuses(self) -> str:
        """What to say of a layout that it has no signature for."""
        return f"the infer layout callback for {self._seen.row.name} does not take it"

    def __init__(self, seen: NodeView, names: DimensionNames) -> None:
        self._seen = seen
        self._names = names

    def signatures(self, node: Node, wanted: Wanted, offers: Offers) -> Iterable[Signature]:
        """One for each layout that a producer of the first operand may give and the callback accepts."""
        tensors = node.operands
        if not tensors or not wanted.operands:
            return
        old = [self._names.of(value) for value in tensors]
        for layout in wanted.operands[0]:
            if layout == tensors[0].identity or len(layout.primal) != len(old[0]):
                continue
            offered = [
                str(layout.in_letters(letters)) if value.rank == tensors[0].rank else ""
                for value, letters in zip(tensors, old, strict=True)
            ]
            seen = self._seen
            told = INFER.ask(seen.row.name, seen.attributes, offered, old, seen.types)
            signature = self._signature(node, told, old)
            if signature is not None:
                yield signature

    def _signature(self, node: Node, told: Any, old: Sequence[str]) -> Signature | None:
        seen, name = self._seen, self._seen.row.name
        _check_told(told, name)
        inputs = [
            _relative(new, letters, value, name)
            for new, letters, value in zip(
                _padded(told.input_layouts, len(old)), old, node.operands, strict=True
            )
        ]
        outputs = [
            _relative(new, self._names.of(value), value, name)
            for new, value in zip(_padded(told.output_layouts, len(node.results)), node.results, strict=True)
        ]
        if inputs[0] == node.operands[0].identity:
            return None
        attributes = Attributes({**seen.attributes, **(told.new_attrs or {})})
        call = tree.Call(name, tuple(seen.operands), dict(attributes))

        def replacement(builder: relax.BlockBuilder, operands: Sequence[Expression]) -> Expression:
            return seen.build(builder, call, operands)

        return Signature(tuple(inputs), tuple(outputs), replacement=replacement, by_callback=True)


def _told(
    name: str,
    attributes: Attributes,
    offered: Sequence[str] | None,
    seen: NodeView,
    node: Node,
    names: DimensionNames,
) -> tuple[Sequence[str], Sequence[str]]:
    """The layouts of a call, from the caller's callback or else from its attributes."""
    if INFER.get(name) is None:
        return layouts_of(name, attributes, len(seen.operands), len(node.results))
    old = [names.of(value) for value in node.operands]
    told = INFER.ask(name, attributes, offered, old, seen.types)
    _check_told(told, name)
    return told.input_layouts, told.output_layouts


def _check_told(told: Any, name: str) -> None:
    if not isinstance(told, InferCorrectLayoutOutput):
        raise LayoutError(
            f"the infer layout callback for {name} returned {type(told).__name__}, "
            "not InferCorrectLayoutOutput"
        )


def _misfit(node: Node, signature: Signature) -> str:
    """The first tensor whose extents the blocks of its layout do not divide."""
    values = [*node.operands, *node.results]
    for value, layout in zip(values, (*signature.operands, *signature.results), strict=True):
        extents = dict(zip(ascii_uppercase, value.shape or (), strict=False))
        axis = layout.uneven_axis(extents)
        if axis is not None:
            extent, block = extents[axis], layout.block(axis)
            if not isinstance(extent, int):
                return f"an extent of '{value.name}' is symbolic ({extent}), and a block needs a number"
            return f"a block of {block} does not divide the {extent} channels of '{value.name}'"
    return ""


def _padded(layouts: Sequence[str], count: int) -> list[str]:
    return [*layouts[:count], *[""] * (count - len(layouts))]


def _relative(new: str, old: str, value: Value, name: str) -> Layout:
    """A layout in the operator's letters as one over the dimensions of the original tensor."""
    if not new or not old or new == old:
        return value.identity
    layout = Layout.parse(new)
    if len(old) != value.rank or sorted(layout.primal) != sorted(old):
        raise LayoutError(
            f"{name}: layout {new} does not fit a tensor that was {old} with {value.rank} dimensions"
        )
    return layout.over_dimensions(old)
