"""Converters of ONNX operators to Relax, by family; :func:`converter_of` finds them by domain and name."""

from relay_layout.frontend.onnx_node import Converter
from relay_layout.frontend.onnx_operators import (
    contributed,
    dynamic_quantization,
    elementwise,
    images,
    linear,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    sequences,
    shapes,
)

_OWN: dict[str, Converter] = {
    **dynamic_quantization.CONVERTERS,
    **elementwise.CONVERTERS,
    **images.CONVERTERS,
    **linear.CONVERTERS,
    **normalization.CONVERTERS,
    **pooling.CONVERTERS,
    **quantization.CONVERTERS,
    **recurrent.CONVERTERS,
    **reduction.CONVERTERS,
    **sequences.CONVERTERS,
    **shapes.CONVERTERS,
}

_BY_DOMAIN = {"": _OWN, "ai.onnx": _OWN, "com.microsoft": contributed.CONVERTERS}


def converter_of(domain: str, operator: str) -> Converter | None:
    """The converter of an operator; None where there is none."""
    return _BY_DOMAIN.get(domain, {}).get(operator)


__all__ = ["converter_of"]
