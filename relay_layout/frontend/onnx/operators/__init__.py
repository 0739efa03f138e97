"""Converters of ONNX operators to Relax, by family; :func:`converter_of` finds them by domain and name."""

from relay_layout.frontend.onnx.node import Converter
from relay_layout.frontend.onnx.operators import contributed, features, own, trees

_BY_DOMAIN = {
    "": own.CONVERTERS,
    "ai.onnx": own.CONVERTERS,
    "ai.onnx.ml": features.CONVERTERS | trees.CONVERTERS,
    "com.microsoft": contributed.CONVERTERS,
}


def converter_of(domain: str, operator: str) -> Converter | None:
    """The converter of an operator; None where there is none."""
    return _BY_DOMAIN.get(domain, {}).get(operator)


__all__ = ["converter_of"]
