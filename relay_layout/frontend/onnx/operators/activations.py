"""Activations that take parameters, for the operators of their names and for the gates of recurrent ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm import relax

from relay_layout.frontend.onnx.node import Node
from relay_layout.frontend.onnx.values import Unsupported

Activation = Callable[[Node, Any], Any]
"""A tensor, bound to a variable, to the activation of its elements."""


def exponential(node: Node, data: Any, alpha: float, rate: float = 1.0) -> Any:
    """alpha * (exp(rate * x) - 1) where x < 0, x elsewhere."""
    zero = node.like(0.0, data)
    # The exponent is kept at or below 0: an overflow would meet the unused branch.
    exponent = node.emit(relax.op.minimum(data, zero), "exponent")
    if rate != 1.0:
        exponent = node.emit(relax.op.multiply(exponent, node.like(rate, data)), "exponent")
    grown = relax.op.subtract(relax.op.exp(exponent), node.like(1.0, data))
    negative = node.emit(relax.op.multiply(grown, node.like(alpha, data)), "negative")
    return relax.op.where(relax.op.less(data, zero), negative, data)


def thresholded_relu(node: Node, data: Any, alpha: float) -> Any:
    """x where x > alpha, 0 elsewhere."""
    above = relax.op.greater(data, node.like(alpha, data))
    return relax.op.where(above, data, node.like(0.0, data))


def softplus(node: Node, data: Any) -> Any:
    """log(1 + exp(x)), as max(x, 0) + log(1 + exp(-abs(x))), which overflows nowhere."""
    shrunk = relax.op.exp(relax.op.negative(relax.op.abs(data)))
    rest = relax.op.log(relax.op.add(shrunk, node.like(1.0, data)))
    return relax.op.add(relax.op.maximum(data, node.like(0.0, data)), rest)


def softsign(node: Node, data: Any) -> Any:
    """x / (1 + abs(x))."""
    return relax.op.divide(data, relax.op.add(relax.op.abs(data), node.like(1.0, data)))


def affine(node: Node, data: Any, alpha: float, beta: float) -> Any:
    """alpha * x + beta."""
    return relax.op.add(relax.op.multiply(data, node.like(alpha, data)), node.like(beta, data))


def hard_sigmoid(node: Node, data: Any, alpha: float, beta: float) -> Any:
    """alpha * x + beta, kept between 0 and 1."""
    return relax.op.clip(affine(node, data, alpha, beta), 0.0, 1.0)


def scaled_tanh(node: Node, data: Any, alpha: float, beta: float) -> Any:
    """alpha * tanh(beta * x)."""
    scaled = relax.op.tanh(relax.op.multiply(data, node.like(beta, data)))
    return relax.op.multiply(scaled, node.like(alpha, data))


@dataclass(frozen=True)
class _Form:
    """An activation by name; ``alpha`` and ``beta`` are the parameters where it has any, by default these."""

    apply: Callable[..., Any]
    alpha: float | None = None
    beta: float | None = None


_FORMS = {
    "affine": _Form(affine, 1.0, 0.0),
    "elu": _Form(exponential, 1.0),
    "hardsigmoid": _Form(hard_sigmoid, 0.2, 0.5),
    "leakyrelu": _Form(lambda node, data, alpha: relax.op.nn.leakyrelu(data, alpha), 0.01),
    "relu": _Form(lambda node, data: relax.op.nn.relu(data)),
    "scaledtanh": _Form(scaled_tanh, 1.0, 1.0),
    "sigmoid": _Form(lambda node, data: relax.op.sigmoid(data)),
    "softplus": _Form(softplus),
    "softsign": _Form(softsign),
    "tanh": _Form(lambda node, data: relax.op.tanh(data)),
    "thresholdedrelu": _Form(thresholded_relu, 1.0),
}
"""By name in small letters: files write them in any."""


def named_activations(node: Node, defaults: tuple[str, ...], directions: int) -> list[list[Activation]]:
    """What the attributes of a recurrent operator apply, for each direction one for each of ``defaults``.

    ``activation_alpha`` and ``activation_beta`` are taken in order by the activations that have such a
    parameter, and those that find none left have the default of the operator of their name.
    """
    names = node.attributes.get("activations") or list(defaults) * directions
    if len(names) != len(defaults) * directions:
        raise Unsupported(f"names {len(names)} activations where {len(defaults) * directions} are due")
    alphas, betas = (list(node.attributes.get(f"activation_{name}", ())) for name in ("alpha", "beta"))
    found = [_activation(name, alphas, betas) for name in names]
    return [found[start : start + len(defaults)] for start in range(0, len(found), len(defaults))]


def _activation(name: str, alphas: list[float], betas: list[float]) -> Activation:
    form = _FORMS.get(name.lower())
    if form is None:
        raise Unsupported(
            f"has the activation '{name}', which is not supported; {', '.join(sorted(_FORMS))} are"
        )
    parameters = [
        given.pop(0) if given else default
        for default, given in ((form.alpha, alphas), (form.beta, betas))
        if default is not None
    ]
    return lambda node, data: form.apply(node, data, *parameters)
