"""Squeeze and excitation: Hu, Shen, Sun 2017, "Squeeze-and-Excitation Networks", arXiv:1709.01507."""

from collections.abc import Callable

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value

Activation = Callable[[Value, str], Value]
"""A method of the builder that takes a value and a node's name."""

GATED_GAIN = 3.5
"""What makes up for gates around 0.5 in the variance of what comes out of them."""

SPREAD = 4.0
"""What tells the channels apart: their means differ less than their pixels, and gates less than both."""


def squeeze_excite(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    squeezed: int,
    *,
    activation: Activation,
    gate: Activation,
    gain: float,
) -> Value:
    """[N,C,H,W] times a gate per channel, worked out from the channels' means through ``squeezed`` of them.

    ``gain`` is that of the weights after ``activation``.
    """
    value = builder.global_average_pool(data, f"{name}.avgpool")
    value = builder.convolution(value, f"{name}.fc1", squeezed, 1, bias=True, gain=SPREAD)
    value = activation(value, f"{name}.activation")
    value = builder.convolution(value, f"{name}.fc2", int(data.shape[1]), 1, bias=True, gain=SPREAD * gain)
    value = gate(value, f"{name}.scale_activation")
    return builder.multiply(data, value, f"{name}.mul")
