"""Why operators keep their original layouts beside others that were converted."""

from collections.abc import Iterable, Mapping

from relay_layout.choice.memory import same_memory
from relay_layout.choice.plan import LayoutPlan
from relay_layout.explanation.readable import Letters
from relay_layout.explanation.refusals import convolution_refusal, refusal
from relay_layout.graph import Node, Value
from relay_layout.layout import Layout
from relay_layout.ops import KEEPS, ConvolutionLayouts, Rule, Signature, Wanted, unchanged
from relay_layout.targets.convolutions import CONVOLUTION_AXES, convolution_of
from relay_layout.targets.offers import desired_entry

COSTS_MORE = "no layout around it would cost less than its own"

DOUBTFUL = "others would save less than their transforms take, which is no certain gain"
"""Transforms count for more than they take (:data:`relay_layout.choice.objective.TRANSFORM_MARGIN`)."""

UNREACHED = "no layout but its own reaches it"
NOT_CONSIDERED = "its row takes the layout, but it was not among those considered"


def not_converted(plan: LayoutPlan) -> dict[str, str]:
    """By binding: operators that keep their layout next to a converted one, and why.

    Those that were offered no desired layout are named whatever is next to them, and so are convolutions
    without any blocks where the caller named a layout with some.
    """
    names = Letters(plan.graph)
    found: dict[str, str] = {}
    for node in plan.graph.nodes:
        if node.name in plan.reasons and is_unconverted(plan, node):
            found[node.name] = plan.reasons[node.name]
            continue
        reason = kept_reason(plan, node, names) or _without_blocks(plan, node, names)
        if reason:
            found[node.name] = reason
    return found


def is_anchor(plan: LayoutPlan, node: Node) -> bool:
    """Whether a node brings up layouts by itself: a convolution."""
    rule = plan.rules(node)
    return rule is not None and rule.is_anchor


def is_unconverted(plan: LayoutPlan, node: Node) -> bool:
    """Whether the node runs just as the module has it."""
    signature = plan.solution.signatures[node]
    original = unchanged(node)
    same = (signature.operands, signature.results) == (original.operands, original.results)
    return same and not signature.alias and signature.replacement is None


def kept_reason(plan: LayoutPlan, node: Node, names: Letters) -> str:
    """Why an unconverted node did not follow its converted neighbours, or what the caller named for it.

    "" where there are none, and nothing was named.
    """
    if not is_unconverted(plan, node):
        return ""
    around = converted_around(plan, node)
    if not around:
        named = desired_entry(plan.desired or {}, node) is not None
        return cause(plan, node, names) if named and is_anchor(plan, node) else ""
    reasons = (obstacle(plan, node, place, layout, names) for place, layout in around)
    return cause(plan, node, names) or next(filter(None, reasons), COSTS_MORE)


def converted_around(plan: LayoutPlan, node: Node) -> list[tuple[int, Layout]]:
    """Layouts, other than the original, that neighbours write or read; by place, operands first."""
    chosen = plan.solution.signatures
    found: list[tuple[int, Layout]] = []
    for place, value in enumerate(node.operands):
        if value.producer is not None:
            found.append((place, chosen[value.producer].results[_place(value)]))
    for place, value in enumerate(node.results, len(node.operands)):
        found += [(place, chosen[reader].operands[position]) for reader, position in value.consumers]
    tensors = [*node.operands, *node.results]
    return [
        (place, layout)
        for place, layout in dict.fromkeys(found)
        if not same_memory(tensors[place], layout, tensors[place].identity)
    ]


def candidates_around(plan: LayoutPlan, node: Node) -> list[tuple[int, Layout]]:
    """Every layout, other than the original, that a neighbour could write or read, chosen or not."""
    found: list[tuple[int, Layout]] = []
    for place, value in enumerate(node.operands):
        if value.producer is not None and value.constant is None:
            at = _place(value)
            found += [(place, signature.results[at]) for signature in plan.signatures[value.producer]]
    for place, value in enumerate(node.results, len(node.operands)):
        for reader, position in value.consumers:
            found += [(place, signature.operands[position]) for signature in plan.signatures[reader]]
    tensors = [*node.operands, *node.results]
    return [pair for pair in dict.fromkeys(found) if pair[1] != tensors[pair[0]].identity]


def cause(plan: LayoutPlan, node: Node, names: Letters) -> str:
    """What keeps a node from having any other layout, whatever is around it; "" where nothing does."""
    if node in plan.skipped:
        return "skip_layers leaves it out"
    if node.name in plan.reasons:
        return plan.reasons[node.name]
    if not node.operator:
        return "it is no operator call"
    rule = plan.rules(node)
    if rule is None:
        why = KEEPS.get(node.operator, "")
        return f"there is no row for {node.operator}" + (f": {why}" if why else "")
    if rule.is_anchor and len(plan.signatures[node]) == 1:
        return _convolution_cause(plan, node, names)
    return ""


def partial_reason(plan: LayoutPlan, node: Node, names: Letters) -> str:
    """Why a convolution is not all in the layout that the caller named; "" where it is, or none was named."""
    entry = desired_entry(plan.desired or {}, node)
    if entry is None or not is_anchor(plan, node):
        return ""
    asked, chosen = entry[0], plan.solution.signatures[node].attributes
    if chosen.get("data_layout", asked) == chosen.get("out_layout", asked) == asked:
        return ""
    kernel = str(node.attributes.kernel_layout)
    reason = convolution_refusal(node, ConvolutionLayouts(asked, kernel, asked), names)
    return f"not all in {asked}: {reason.removeprefix(f'{asked}: ')}" if reason else ""


def _without_blocks(plan: LayoutPlan, node: Node, names: Letters) -> str:
    """Why a convolution has no blocks although the caller named a layout with some; "" where it has."""
    reason = partial_reason(plan, node, names)
    attributes = plan.solution.signatures[node].attributes
    chosen = [attributes.get("data_layout", ""), attributes.get("out_layout", "")]
    return reason if all(layout.isupper() for layout in chosen) else ""


def obstacle(plan: LayoutPlan, node: Node, place: int, layout: Layout, names: Letters) -> str:
    """Why no signature of ``node`` has ``layout`` at ``place``; "" where one has."""
    if any(_at(signature, place) == layout for signature in plan.signatures[node]):
        return ""
    rule = plan.rules(node)
    if rule is None or rule.is_anchor:
        return cause(plan, node, names)
    if any(_at(signature, place) == layout for signature in _signatures_for(plan, rule, node, place, layout)):
        return NOT_CONSIDERED
    return refusal(rule, node, place, layout, names)


def chooses(plan: LayoutPlan, node: Node) -> bool:
    """Whether a node brings up layouts by itself and was free to, rather than taking those around it."""
    rule = plan.rules(node)
    if rule is None or (len(plan.signatures[node]) == 1 and is_unconverted(plan, node)):
        return False
    alone = Wanted(
        tuple((value.identity,) for value in node.operands),
        tuple((value.identity,) for value in node.results),
    )
    original = unchanged(node)
    return any(
        not signature.alias
        and (signature.operands, signature.results) != (original.operands, original.results)
        for signature in rule.signatures(node, alone, plan.offers)
    )


def _convolution_cause(plan: LayoutPlan, node: Node, names: Letters) -> str:
    if plan.desired is not None and not plan.desired:
        return "no conversion was asked for"
    if plan.desired is not None and desired_entry(plan.desired, node) is None:
        return f"the desired layouts have no entry for {node.operator}"
    offered = list(plan.offers.convolution_layouts(node))
    for layouts in offered:
        reason = convolution_refusal(node, layouts, names)
        if reason:
            return reason
    if offered:
        return ""
    return _unreadable(node) or f"the target has no {node.operator} kernel in another layout"


def _unreadable(node: Node) -> str:
    """Why the extents of a convolution are not known; "" where they are."""
    if node.operator not in CONVOLUTION_AXES or convolution_of(node) is not None:
        return ""
    for value, text in (
        (node.operands[0], str(node.attributes.data_layout)),
        (node.operands[1], str(node.attributes.kernel_layout)),
    ):
        if value.shape is None:
            return f"the rank of '{value.name}' is unknown"
        if not text.isupper():
            return f"it has the blocked layout {text} already"
        needed = "C" if value is node.operands[0] else text
        extents: Mapping[str, object] = dict(zip(text, value.shape, strict=True))
        for axis in needed:
            if not isinstance(extents[axis], int):
                return f"{axis} of '{value.name}' is symbolic ({extents[axis]})"
    return ""


def _signatures_for(
    plan: LayoutPlan, rule: Rule, node: Node, place: int, layout: Layout
) -> Iterable[Signature]:
    """What the rule gives if nothing but ``layout`` at ``place`` is around the node."""
    wanted = [(layout,) if place == at else () for at in range(len(node.operands) + len(node.results))]
    alone = Wanted(tuple(wanted[: len(node.operands)]), tuple(wanted[len(node.operands) :]))
    return rule.signatures(node, alone, plan.offers)


def _place(value: Value) -> int:
    assert value.producer is not None
    return value.producer.results.index(value)


def _at(signature: Signature, place: int) -> Layout:
    return [*signature.operands, *signature.results][place]
