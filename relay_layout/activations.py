"""Activations that take parameters, of tensors that are bound to variables.

Equations are those of ONNX's operators of these names.
"""

from collections.abc import Callable
from functools import cache

from tvm import relax

from relay_layout.ir import Expression, dtype_of
from topi_ext.compute.recurrent.activations import Activation


def exponential(data: Expression, alpha: float, rate: float = 1.0) -> Expression:
    """alpha * (exp(rate * x) - 1) where x < 0, x elsewhere."""
    zero = like(0.0, data)
    # The exponent is kept at or below 0: an overflow would meet the unused branch.
    exponent = relax.op.minimum(data, zero)
    if rate != 1.0:
        exponent = relax.op.multiply(exponent, like(rate, data))
    grown = relax.op.subtract(relax.op.exp(exponent), like(1.0, data))
    return relax.op.where(relax.op.less(data, zero), relax.op.multiply(grown, like(alpha, data)), data)


def thresholded_relu(data: Expression, alpha: float) -> Expression:
    """x where x > alpha, 0 elsewhere."""
    return relax.op.where(relax.op.greater(data, like(alpha, data)), data, like(0.0, data))


def softplus(data: Expression) -> Expression:
    """log(1 + exp(x)), as max(x, 0) + log(1 + exp(-abs(x))), which overflows nowhere."""
    shrunk = relax.op.exp(relax.op.negative(relax.op.abs(data)))
    rest = relax.op.log(relax.op.add(shrunk, like(1.0, data)))
    return relax.op.add(relax.op.maximum(data, like(0.0, data)), rest)


def softsign(data: Expression) -> Expression:
    """x / (1 + abs(x))."""
    return relax.op.divide(data, relax.op.add(relax.op.abs(data), like(1.0, data)))


def affine(data: Expression, alpha: float, beta: float) -> Expression:
    """alpha * x + beta."""
    return relax.op.add(relax.op.multiply(data, like(alpha, data)), like(beta, data))


def hard_sigmoid(data: Expression, alpha: float, beta: float) -> Expression:
    """alpha * x + beta, kept between 0 and 1."""
    return relax.op.clip(affine(data, alpha, beta), 0.0, 1.0)


def scaled_tanh(data: Expression, alpha: float, beta: float) -> Expression:
    """alpha * tanh(beta * x)."""
    scaled = relax.op.tanh(relax.op.multiply(data, like(beta, data)))
    return relax.op.multiply(scaled, like(alpha, data))


def activated(activation: Activation, data: Expression) -> Expression:
    """As :func:`topi_ext.compute.recurrent.activations.activated`, for each element of ``data``."""
    return _FORMS[activation.name](data, activation.alpha, activation.beta)


_FORMS: dict[str, Callable[[Expression, float, float], Expression]] = {
    "affine": affine,
    "elu": lambda data, alpha, beta: exponential(data, alpha),
    "hardsigmoid": hard_sigmoid,
    "leakyrelu": lambda data, alpha, beta: relax.op.nn.leakyrelu(data, alpha),
    "relu": lambda data, alpha, beta: relax.op.nn.relu(data),
    "scaledtanh": scaled_tanh,
    "sigmoid": lambda data, alpha, beta: relax.op.sigmoid(data),
    "softplus": lambda data, alpha, beta: softplus(data),
    "softsign": lambda data, alpha, beta: softsign(data),
    "tanh": lambda data, alpha, beta: relax.op.tanh(data),
    "thresholdedrelu": lambda data, alpha, beta: thresholded_relu(data, alpha),
}


def like(number: float, data: Expression) -> Expression:
    """A scalar constant of the element type of ``data``; one for all that read the same."""
    return _scalar(number, dtype_of(data))


@cache
def _scalar(number: float, dtype: str) -> Expression:
    return relax.const(number, dtype)
