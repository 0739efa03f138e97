"""Activations, losses and other operators on one tensor that ``relay.nn`` holds."""

from collections.abc import Sequence

from tvm import relax, topi

from relay_layout.ir import Expression
from relay_layout.relay.operators import losses
from relay_layout.relay.operators.attributes import Attributes
from relay_layout.relay.operators.axis_arguments import axis_of
from relay_layout.relay.operators.direct import Field, direct, plain
from relay_layout.relay.operators.normalization import check_vectors, vector_types
from relay_layout.relay.operators.operator import Operator, Scope, rank_of


def _prelu(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data, alpha = operands
    axis = axis_of(attributes.axis, rank_of(data))
    check_vectors(data, (alpha,), axis, "alpha")
    return relax.op.nn.prelu(data, alpha, axis)


def _fast_softmax(scope: Scope, operands: Sequence[Expression], attributes: Attributes) -> Expression:
    data = operands[0]
    axis = axis_of(attributes.axis, rank_of(data))
    return scope.builder.call_te(
        lambda tensor: topi.nn.fast_softmax(tensor, axis), data, primfunc_name_hint="fast_softmax"
    )


ROWS = (
    direct("nn.relu", "data"),
    direct(
        "nn.leaky_relu",
        "data",
        "LeakyReluAttrs",
        relax_name="nn.leakyrelu",
        fields={"alpha": "alpha"},
        signature="data, alpha=0.01",
    ),
    Operator(
        "nn.prelu",
        ("data", "alpha"),
        _prelu,
        "PReluAttrs",
        signature="data, alpha, axis=1",
        relax_names=("nn.prelu",),
        export=lambda call: {"axis": plain(call.attrs.axis)},
        operand_types=vector_types(1),
    ),
    direct("nn.softmax", "data", "SoftmaxAttrs", fields={"axis": Field("axis")}),
    direct("nn.log_softmax", "data", "SoftmaxAttrs", fields={"axis": Field("axis")}),
    Operator(
        "nn.fast_softmax",
        ("data",),
        _fast_softmax,
        "SoftmaxAttrs",
        signature="data, axis=-1",
        carried=True,
    ),
    # Python's relay.nn.dropout is the first field of the two.
    direct(
        "nn.dropout",
        "data",
        "DropoutAttrs",
        fields={"rate": "rate"},
        signature="data, rate=0.5",
        results=2,
    ),
    *losses.ROWS,
)
