"""Converters of the operators of ONNX's own domain, by name."""

from relay_layout.frontend.onnx.node import Converter
from relay_layout.frontend.onnx.operators import (
    caches,
    deformable,
    dynamic_quantization,
    early,
    elementwise,
    images,
    linear,
    normalization,
    pooling,
    quantization,
    random_numbers,
    recurrent,
    reduction,
    selection,
    sequences,
    shapes,
    slicing,
    spectra,
)

CONVERTERS: dict[str, Converter] = {
    **caches.CONVERTERS,
    **deformable.CONVERTERS,
    **dynamic_quantization.CONVERTERS,
    **early.CONVERTERS,
    **elementwise.CONVERTERS,
    **images.CONVERTERS,
    **linear.CONVERTERS,
    **normalization.CONVERTERS,
    **pooling.CONVERTERS,
    **quantization.CONVERTERS,
    **random_numbers.CONVERTERS,
    **recurrent.CONVERTERS,
    **reduction.CONVERTERS,
    **selection.CONVERTERS,
    **sequences.CONVERTERS,
    **shapes.CONVERTERS,
    **slicing.CONVERTERS,
    **spectra.CONVERTERS,
}
