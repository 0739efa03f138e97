"""Converters of ONNX operators to Relax, by family; :func:`converter_of` finds them by domain and name."""

from collections.abc import Callable, Mapping

from relay_layout.errors import ModelError
from relay_layout.frontend.onnx.node import Converter
from relay_layout.frontend.onnx.operators import contributed, features, labels, own, trees, vector_machines

_BY_DOMAIN: Mapping[str, Mapping[str, Converter]] = {
    "": own.CONVERTERS,
    "ai.onnx": own.CONVERTERS,
    "ai.onnx.ml": {
        **features.CONVERTERS,
        **labels.CONVERTERS,
        **trees.CONVERTERS,
        **vector_machines.CONVERTERS,
    },
    "com.microsoft": contributed.CONVERTERS,
}

_REGISTERED: dict[tuple[str, str], Converter] = {}
"""Those of programs that import this package, by domain and name."""


def converter_of(domain: str, operator: str) -> Converter | None:
    """The converter of an operator; None where there is none."""
    return _BY_DOMAIN.get(domain, {}).get(operator) or _REGISTERED.get((domain, operator))


def register_converter(domain: str, operator: str) -> Callable[[Converter], Converter]:
    """A decorator for the function that converts an operator which the package does not know.

    The function gets a :class:`relay_layout.frontend.onnx.node.Node`, whose ``tensor(0)`` is its first input
    and whose ``attributes`` are Python numbers, texts, lists and arrays, and gives a Relax expression, or a
    list of one for each output. What it raises is a ModelError that names the node. Of two functions for one
    operator the later one holds.

    Raises ModelError for an operator that the package converts itself.
    """
    if operator in _BY_DOMAIN.get(domain, {}):
        raise ModelError(f"the operator {operator} of the domain {domain!r} has a converter, which stays")

    def registered(converter: Converter) -> Converter:
        _REGISTERED[domain, operator] = converter
        return converter

    return registered


__all__ = ["converter_of", "register_converter"]
