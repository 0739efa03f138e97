"""float16 kernels on an emulated board: sums in float16, rounded after each multiply-add in its turn."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.board.networks import LAYOUTS, on_board
from tests.board.servers import Boards

CASES = ((512, 16, 6, 3), (100, 24, 9, 3), (256, 12, 5, 1), (3, 16, 10, 3))
"""Channels, results' channels, pixels a side, and taps a side."""


@pytest.mark.parametrize("layout", LAYOUTS)
def test_convolutions_to_the_bit(boards: Boards, tmp_path: Path, layout: str) -> None:
    module, inputs, weights = convolutions()
    found = on_board(module, layout, inputs, boards.remote, tmp_path)
    for case, data, weight, result in zip(CASES, inputs.values(), weights, found.values(), strict=True):
        expected = summed_in_order(data, weight, layout)
        assert result.dtype == "float16"
        np.testing.assert_array_equal(result[0], expected, err_msg=f"{case} in {layout}")


def convolutions() -> tuple[tvm.IRModule, dict[str, np.ndarray], list[np.ndarray]]:
    """A function of all cases, with inputs and outputs of their own; the inputs, and the weights."""
    builder = relax.BlockBuilder()
    inputs, weights = {}, []
    for place, (channels, outputs, side, taps) in enumerate(CASES):
        draw = np.random.default_rng(place)
        inputs[f"data_{place}"] = draw.standard_normal((1, channels, side, side)).astype("float16")
        scale = (channels * taps * taps) ** -0.5
        weights.append((scale * draw.standard_normal((outputs, channels, taps, taps))).astype("float16"))
    parameters = [relax.Var(name, relax.TensorType(each.shape, "float16")) for name, each in inputs.items()]
    with builder.function("main", parameters):
        with builder.dataflow():
            results = [
                builder.emit(relax.op.nn.conv2d(data, relax.const(weight), padding=weight.shape[-1] // 2))
                for data, weight in zip(parameters, weights, strict=True)
            ]
            outputs = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(outputs)
    return builder.finalize(), inputs, weights


def summed_in_order(data: np.ndarray, weight: np.ndarray, layout: str) -> np.ndarray:
    """[outputs,rows,columns] by fused multiply-adds: products and sums are exact in float64, then rounded."""
    _, channels, height, width = data.shape
    taps = weight.shape[-1]
    border = taps // 2
    padded = np.pad(data[0].astype("float64"), ((0, 0), (border, border), (border, border)))
    factors = weight.astype("float64")
    sums = np.zeros((len(weight), height, width))
    for channel, row, column in _steps(channels, taps, layout):
        window = padded[channel, row : row + height, column : column + width]
        sums += factors[:, channel, row, column, None, None] * window
        sums = sums.astype("float16").astype("float64")
    return sums


def _steps(channels: int, taps: int, layout: str) -> Iterator[tuple[int, int, int]]:
    """Channel, row and column of each product: with channels last by pixel, else by blocks of channels."""
    if layout == "NHWC":
        for row, column, channel in product(range(taps), range(taps), range(channels)):
            yield channel, row, column
        return
    block = next(size for size in (8, 4, 1) if channels % size == 0)
    for first, row, column, lane in product(
        range(0, channels, block), range(taps), range(taps), range(block)
    ):
        yield first + lane, row, column
