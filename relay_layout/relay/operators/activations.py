"""Activations and other operators on one tensor that `relay.nn` holds."""

from __future__ import annotations

from relay_layout.relay.operators.direct import Field, direct

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
    direct("nn.softmax", "data", "SoftmaxAttrs", fields={"axis": Field("axis")}),
)
