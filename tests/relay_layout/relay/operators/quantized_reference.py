"""What Relay's quantized operators compute, in whole numbers, and their expressions with constants bound."""

import math

import numpy as np
import tvm_ffi
from relay_harness import execute, program

from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import print_text, read_text


def evaluate_bound(body: str, constants: dict[str, np.ndarray], **inputs: np.ndarray) -> list[np.ndarray]:
    """Every result of a body with the constants, arrays by name, in place; round trip included."""
    module = from_tree(read_text(program(body, **inputs, **constants), "test"), constants, name="test")
    printed = print_text(to_tree(module))
    again = from_tree(read_text(printed, "printed"), name="printed")
    assert tvm_ffi.structural_equal(module, again), f"not the same after printing as Relay:\n{printed}"
    return execute(module, list(inputs.values()))


def scale_exactly(value: int, scale: np.float32, output_scale: np.float32, upward: bool = True) -> int:
    """An integer times the quotient of two scales, with 31 bits of quotient and one rounding."""
    fraction, exponent = math.frexp(float(scale) / float(output_scale))
    multiplier = math.floor(fraction * 2**31 + 0.5)
    product = int(value) * multiplier * 2 ** max(exponent, 0)
    shift = 31 + max(-exponent, 0)
    half = 2 ** (shift - 1) - (0 if upward or product >= 0 else 1)
    return (product + half) >> shift


def requantized(
    data: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray,
    output_scale: float,
    output_zero_point: int,
    dtype: str,
    axis: int = -1,
    upward: bool = True,
) -> np.ndarray:
    """``qnn.requantize`` in fixed point."""
    axis %= data.ndim
    count = data.shape[axis]
    scales = np.broadcast_to(np.asarray(scale, "float32"), count)
    zero_points = np.broadcast_to(np.asarray(zero_point), count)
    result = np.empty(data.shape, "int64")
    limits = np.iinfo(dtype)
    for index in np.ndindex(*data.shape):
        shifted = int(data[index]) - int(zero_points[index[axis]])
        channel_scale = scales[index[axis]]
        if channel_scale != np.float32(output_scale) or np.ndim(scale):
            shifted = scale_exactly(shifted, channel_scale, np.float32(output_scale), upward)
        result[index] = min(max(shifted + output_zero_point, limits.min), limits.max)
    return result.astype(dtype)


def round_away(value: np.ndarray) -> np.ndarray:
    """Halves away from zero."""
    return np.sign(value) * np.floor(np.abs(value).astype("float64") + 0.5)
