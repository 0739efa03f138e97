"""How far predictions are from what they should be."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.ir import Expression, known_to_differ
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.direct import named_attributes
from relay_layout.relay.operators.operator import Build, Operator, Scope, extents, scalar_like

_REDUCTIONS = ("mean", "sum", "none")


def _cross_entropy(logits: bool) -> Build:
    def build(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
        predictions, targets = operands
        shapes = [extents(operand) for operand in operands]
        if any(len(shape) != 2 for shape in shapes) or not isinstance(shapes[0][0], int):
            raise ModelError("predictions and targets are matrices with a known number of rows")
        if any(map(known_to_differ, *shapes)):
            raise ModelError("predictions and targets differ in shape")
        scores = predictions if logits else relax.op.log(predictions)
        total = relax.op.negative(relax.op.sum(relax.op.multiply(scores, targets)))
        return relax.op.divide(total, scalar_like(shapes[0][0], predictions))

    return build


def _nll_loss(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    if attributes.reduction not in _REDUCTIONS:
        raise ModelError(f"reduction is '{attributes.reduction}', not one of {', '.join(_REDUCTIONS)}")
    return relax.op.nn.nll_loss(
        *operands, reduction=attributes.reduction, ignore_index=attributes.ignore_index
    )


def _export_nll_loss(call: relax.Call) -> Mapping[str, Any] | None:
    if len(call.args) != 3:
        return None
    return named_attributes(call, "reduction", "ignore_index")


ROWS = (
    Operator("nn.cross_entropy", ("predictions", "targets"), _cross_entropy(logits=False)),
    Operator("nn.cross_entropy_with_logits", ("predictions", "targets"), _cross_entropy(logits=True)),
    Operator(
        "nn.nll_loss",
        ("predictions", "targets", "weights"),
        _nll_loss,
        "NLLLossAttrs",
        signature="predictions, targets, weights, reduction='mean', ignore_index=-100",
        relax_names=("nn.nll_loss",),
        export=_export_nll_loss,
    ),
)
