"""Sums of segments, places of sparse tensors and transforms of windows, beside numpy."""

from typing import Any

import numpy as np
import pytest

from relay_layout import relay
from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(0)
OPEN = relay.Any()


def computed(expression: Any, **inputs: np.ndarray) -> list[np.ndarray]:
    function = relay.Function(relay.analysis.free_vars(expression), expression)
    results = relay.create_executor("graph").evaluate(function)(**inputs)
    return [result.numpy() for result in (results if isinstance(results, list) else [results])]


@pytest.mark.parametrize("count", [None, 5])
@pytest.mark.parametrize(("rows", "rest"), [(4, (3,)), (4, ()), (OPEN, (2, 3))])
def test_segment_sum(count: int | None, rows: Any, rest: tuple[int, ...]) -> None:
    """There are as many segments as told, or as the largest needs."""
    values = RANDOM.standard_normal((4, *rest)).astype("float32")
    segments = np.array([2, 0, 0, 1], "int32")
    data = relay.var("x", shape=(rows, *rest))
    ids = relay.var("i", shape=(rows,), dtype="int32")
    (result,) = computed(relay.segment_sum(data, ids, count), x=values, i=segments)
    expected = np.zeros((count or 3, *rest), "float32")
    np.add.at(expected, segments, values)
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_sparse_reshape() -> None:
    """Elements keep their place among all; a -1 is what is left over."""
    places = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]], "int32")
    old, new = (relay.var(name, shape=(size,), dtype="int32") for name, size in (("old", 3), ("new", 2)))
    indices = relay.var("i", shape=(OPEN, 3), dtype="int32")
    shapes = {"old": np.array([2, 3, 6], "int32"), "new": np.array([9, -1], "int32")}
    result, shape = computed(relay.sparse_reshape(indices, old, new).astuple(), i=places, **shapes)
    flat = np.ravel_multi_index(tuple(places.T), (2, 3, 6))
    np.testing.assert_array_equal(result, np.stack(np.unravel_index(flat, (9, 4)), 1))
    np.testing.assert_array_equal(shape, [9, 4])


@pytest.mark.parametrize("onesided", [True, False])
@pytest.mark.parametrize(("normalized", "hop"), [(True, 5), (False, None)])
def test_stft(onesided: bool, normalized: bool, hop: int | None) -> None:
    """Frames times the window, transformed."""
    signal = RANDOM.standard_normal((2, 50)).astype("float32")
    weights = np.hanning(16).astype("float32")
    data, window = relay.var("x", shape=(2, 50)), relay.var("w", shape=(16,))
    net = relay.stft(data, 16, hop, None, window, normalized, onesided)
    (result,) = computed(net, x=signal, w=weights)
    frames = np.stack([signal[:, at : at + 16] for at in range(0, 35, hop or 4)], 1) * weights
    transformed = (np.fft.rfft if onesided else np.fft.fft)(frames).transpose(0, 2, 1)
    expected = np.stack([transformed.real, transformed.imag], -1) / (4 if normalized else 1)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def test_stft_of_one_signal() -> None:
    """Without a batch, the result has none; a shorter window has its own frequencies."""
    signal = np.arange(6, dtype="float32")
    (result,) = computed(relay.stft(relay.var("x", shape=(6,)), 4, 2, 3), x=signal)
    frames = np.stack([signal[:3], signal[2:5]])
    angles = 2 * np.pi * np.outer(np.arange(3), np.arange(3)) / 3
    expected = np.stack([frames @ np.cos(angles).T, -frames @ np.sin(angles).T], -1).transpose(1, 0, 2)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "arguments", "message"),
    [
        ((2, OPEN), (4,), "of a known number of samples"),
        ((2, 3, 4), (4,), "data is \\(samples\\) or \\(batch, samples\\)"),
        ((6,), (8,), "n_fft 8, win_length 8, hop_length 2 do not fit 6 samples"),
    ],
)
def test_refused(shape: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        relay.stft(relay.var("x", shape=shape), *arguments)
