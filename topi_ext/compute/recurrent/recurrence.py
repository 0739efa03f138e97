"""Recurrent layers as ONNX defines them: their kind, states, gates and attributes."""

from dataclasses import dataclass
from typing import Literal

from topi_ext.compute.recurrent.activations import SIGMOID, TANH, Activation

Kind = Literal["LSTM", "GRU", "RNN"]

_GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULT_ACTIVATIONS: dict[Kind, tuple[Activation, ...]] = {
    "LSTM": (SIGMOID, TANH, TANH),
    "GRU": (SIGMOID, TANH),
    "RNN": (TANH,),
}

OPTIONAL = ("hidden", "cell", "lengths", "bias", "peepholes")
"""The optional inputs of a layer, beside its data and weights; see :func:`.layers.recurrent`."""


@dataclass(frozen=True)
class Recurrence:
    """The kind of a layer and its attributes, as ONNX defines them.

    ``backwards`` says of each direction whether it goes through time in reverse. ``activations`` has the
    functions f, g (and h of an LSTM) of each direction, by default those of the ``kind``; their arguments are
    clipped to [-clip, clip] unless ``clip`` is 0. With ``input_forget`` the forget gate of an LSTM is 1 - the
    input gate.
    """

    kind: Kind
    backwards: tuple[bool, ...] = (False,)
    activations: tuple[tuple[Activation, ...], ...] = ()
    clip: float = 0.0
    input_forget: bool = False

    def __post_init__(self) -> None:
        default = (_DEFAULT_ACTIVATIONS[self.kind],) * len(self.backwards)
        object.__setattr__(self, "activations", self.activations or default)

    @property
    def gates(self) -> int:
        return _GATES[self.kind]

    @property
    def states(self) -> tuple[str, ...]:
        """The names of the states that a time step passes to the next."""
        return OPTIONAL[: 2 if self.kind == "LSTM" else 1]
