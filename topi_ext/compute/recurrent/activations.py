"""Activations of the gates of recurrent layers, of expressions in float32.

Names, parameters and equations are those of ONNX's operators of these names, written in small letters.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import tirx

from topi_ext.compute.transcendental import exp_of, sigmoid_of, tanh_of


@dataclass(frozen=True)
class Activation:
    """One of :data:`NAMES`; those that take no such parameter ignore it."""

    name: str
    alpha: float = 0.0
    beta: float = 0.0


SIGMOID, TANH = Activation("sigmoid"), Activation("tanh")


def activated(activation: Activation, value: Any) -> Any:
    """The activation of an expression, float32."""
    return _FORMS[activation.name](value, _float(activation.alpha), _float(activation.beta))


def _affine(value: Any, alpha: Any, beta: Any) -> Any:
    return alpha * value + beta


def _elu(value: Any, alpha: Any, beta: Any) -> Any:
    # Kept at or below 0: an overflow would meet the unused branch.
    below = alpha * (exp_of(tirx.min(value, _float(0.0))) - _float(1.0))
    return tirx.Select(value < _float(0.0), below, value)


def _hard_sigmoid(value: Any, alpha: Any, beta: Any) -> Any:
    return tirx.max(_float(0.0), tirx.min(_float(1.0), _affine(value, alpha, beta)))


def _softplus(value: Any, alpha: Any, beta: Any) -> Any:
    # Overflows nowhere, as log(1 + exp(x)) would.
    rest = tirx.log(exp_of(-tirx.abs(value)) + _float(1.0))
    return tirx.max(value, _float(0.0)) + rest


_FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "affine": _affine,
    "elu": _elu,
    "hardsigmoid": _hard_sigmoid,
    "leakyrelu": lambda value, alpha, beta: tirx.Select(value < _float(0.0), alpha * value, value),
    "relu": lambda value, alpha, beta: tirx.max(value, _float(0.0)),
    "scaledtanh": lambda value, alpha, beta: alpha * tanh_of(beta * value),
    "sigmoid": lambda value, alpha, beta: sigmoid_of(value),
    "softplus": _softplus,
    "softsign": lambda value, alpha, beta: value / (_float(1.0) + tirx.abs(value)),
    "tanh": lambda value, alpha, beta: tanh_of(value),
    "thresholdedrelu": lambda value, alpha, beta: tirx.Select(value > alpha, value, _float(0.0)),
}

NAMES = tuple(_FORMS)


def _float(value: float) -> Any:
    return tirx.const(value, "float32")
