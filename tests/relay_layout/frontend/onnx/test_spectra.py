"""Fourier transforms from ONNX compute what numpy computes."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.layout_graphs import compiled
from tests.onnx_refusals import refusal

RNG = np.random.default_rng(5)
Array = np.ndarray


def run(node: str, data: Array, opset: int, *, shape: str = "", **constants: Any) -> Array:
    """One node of ``x``; ``shape`` declares the input where it is not the shape of ``data``."""
    declared = shape or ",".join(map(str, data.shape))
    text = (
        f'<ir_version: 9, opset_import: ["" : {opset}]> case (float[{declared}] x) => (float y) {{ {node} }}'
    )
    model = parser.parse_model(text)
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()
    )
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, None))
    result: Array = compiled(from_onnx(model))["main"](tvm.runtime.tensor(data)).numpy()
    return result


def numbers(*shape: int) -> Array:
    return RNG.uniform(-1, 1, shape).astype("float32")


def as_complex(data: Array) -> Array:
    return data[..., 0] + 1j * data[..., 1] if data.shape[-1] == 2 else data[..., 0]


def as_parts(data: Array) -> Array:
    return np.stack([data.real, data.imag], -1)


def check(found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, 1e-4, 1e-4)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("inverse", "transform"), [(0, np.fft.fft), (1, np.fft.ifft)])
def test_every_axis(parts: int, axis: int, inverse: int, transform: Callable[..., Array]) -> None:
    data = numbers(3, 6, 5, parts)
    wanted = as_parts(transform(as_complex(data), axis=axis))
    check(run(f"y = DFT <axis={axis}, inverse={inverse}> (x)", data, 17), wanted)
    check(run(f'y = DFT <inverse={inverse}> (x, "", a)', data, 20, a=axis), wanted)


def test_axes_that_are_not_named() -> None:
    data = numbers(2, 4, 6, 1)
    check(run("y = DFT (x)", data, 17), as_parts(np.fft.fft(data[..., 0], axis=1)))
    check(run("y = DFT (x)", data, 20), as_parts(np.fft.fft(data[..., 0], axis=2)))


@pytest.mark.parametrize("length", [4, 7, 10])
def test_lengths_that_are_cut_or_padded(length: int) -> None:
    data = numbers(2, 7, 1)
    wanted = as_parts(np.fft.rfft(data[..., 0], length, axis=1))
    check(run("y = DFT <onesided=1> (x, n)", data, 20, n=np.int64(length)), wanted)


@pytest.mark.parametrize("length", [None, 9, 10])
def test_real_signals_of_half_a_spectrum(length: int | None) -> None:
    data = numbers(2, 6, 2)
    wanted = np.fft.irfft(as_complex(data), length, axis=1)[..., None]
    node, constants = "y = DFT <onesided=1, inverse=1> (x)", {}
    if length is not None:
        node, constants = node.replace("(x)", "(x, n)"), {"n": np.int64(length)}
    check(run(node, data, 20, **constants), wanted)


def test_any_batch() -> None:
    data = numbers(3, 8, 1)
    check(run("y = DFT <axis=1> (x)", data, 17, shape="N,8,1"), as_parts(np.fft.fft(data[..., 0], axis=1)))


@pytest.mark.parametrize("length", [1, 2, 7, 12])
@pytest.mark.parametrize(("inverse", "transform"), [(0, np.fft.fft), (1, np.fft.ifft)])
@pytest.mark.parametrize("parts", [1, 2])
def test_signals_of_any_length(
    parts: int, inverse: int, transform: Callable[..., Array], length: int
) -> None:
    data = numbers(2, length, 3, parts)
    found = run(f"y = DFT <axis=1, inverse={inverse}> (x)", data, 17, shape=f"2,N,3,{parts}")
    check(found, as_parts(transform(as_complex(data), axis=1)))


@pytest.mark.parametrize(("given", "length"), [("", None), ("n", 9)])
def test_signals_of_any_length_of_half_a_spectrum(given: str, length: int | None) -> None:
    data, constants = numbers(2, 7, 1), {} if length is None else {"n": length}
    found = run(f"y = DFT <axis=1, onesided=1> (x, {given})", data, 17, shape="2,N,1", **constants)
    check(found, as_parts(np.fft.rfft(data[..., 0], length, axis=1)))


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(("length", "step"), [(8, 3), (5, 5), (16, 1)])
def test_windows(onesided: int, windowed: bool, length: int, step: int) -> None:
    data, window = numbers(2, 21, 1), np.hanning(length).astype("float32")
    frames = [data[:, at : at + length, 0] for at in range(0, 21 - length + 1, step)]
    transform = np.fft.rfft if onesided else np.fft.fft
    wanted = as_parts(transform(np.stack(frames, 1) * (window if windowed else 1), axis=-1))
    constants = {"s": np.int64(step), "n": np.int64(length)} | ({"w": window} if windowed else {})
    node = f"y = STFT <onesided={onesided}> (x, s, {'w' if windowed else chr(34) * 2}, n)"
    check(run(node, data, 17, **constants), wanted)


def test_windows_of_complex_signals() -> None:
    data = numbers(2, 12, 2)
    wanted = as_parts(np.fft.fft(np.stack([as_complex(data)[:, at : at + 6] for at in (0, 6)], 1), axis=-1))
    check(run('y = STFT <onesided=0> (x, s, "", n)', data, 17, s=np.int64(6), n=np.int64(6)), wanted)


@pytest.mark.parametrize(
    ("node", "shape", "constants", "message"),
    [
        (
            "y = DFT <axis=1, inverse=1, onesided=1> (x)",
            "2,N,2",
            {},
            "makes real numbers of [N], whose number has to be known: give the model's inputs fixed shapes",
        ),
        ("y = DFT <axis=1> (x)", "2,4,3", {}, "transforms [2,4,3]; supported are known lengths of numbers"),
        ("y = DFT <axis=2> (x)", "2,4,2", {}, "transforms axis 2 of [2,4,2], which has the parts of its"),
        ("y = DFT <onesided=1> (x)", "2,4,2", {}, "is one-sided and not inverse, of numbers of 2 parts"),
        (
            "y = DFT <axis=1> (x)",
            "1,9000,1",
            {},
            "transforms 9000 elements to 9000, whose matrix is too large",
        ),
        ("y = DFT (x, n)", "1,4,1", {"n": np.int64(0)}, "transforms 0 elements"),
        (
            'y = STFT (x, s, "", n)',
            "1,4,1",
            {"s": np.int64(1), "n": np.int64(8)},
            "takes frames of 8 elements, 1 apart, of signals of 4",
        ),
    ],
    ids=["length", "parts", "axis", "one-sided", "large", "nothing", "frames"],
)
def test_what_is_refused(node: str, shape: str, constants: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match="node 'y'") as error:
        run(node, numbers(1), 17, shape=shape, **constants)
    assert message in str(error.value)


@pytest.mark.parametrize("length", [8, 11, 40])
def test_frames_of_signals_of_any_length(length: int) -> None:
    data, window = numbers(2, length, 1), np.hanning(8).astype("float32")
    found = run("y = STFT(x, step, window)", data, 17, shape="B,L,1", step=3, window=window)
    frames = np.lib.stride_tricks.sliding_window_view(data[..., 0], 8, 1)[:, ::3] * window
    check(found, as_parts(np.fft.rfft(frames)))


def test_a_frame_of_unknown_length_is_refused() -> None:
    with pytest.raises(ModelError, match=r"\(STFT\) transforms \[2,L,1\]; supported are known lengths"):
        run("y = STFT(x, step)", numbers(2, 9, 1), 17, shape="2,L,1", step=3)


_MEL = {name: np.array(value) for name, value in (("bands", 8), ("bins", 16), ("rate", 8192))}
_EDGES = {"low": np.array(0.0, "float32"), "high": np.array(4096.0, "float32")}


def test_mel_weights_are_constants() -> None:
    node = "m = MelWeightMatrix (bands, bins, rate, low, high)  y = MatMul (x, m)"
    weights = run(node, np.eye(9, dtype="float32"), 17, **_MEL, **_EDGES)
    evaluator = ReferenceEvaluator(
        parser.parse_model(
            '<ir_version: 9, opset_import: ["" : 17]> case (int64 bands, int64 bins, int64 rate, float low,'
            " float high) => (float[a,b] y) { y = MelWeightMatrix (bands, bins, rate, low, high) }"
        )
    )
    (wanted,) = evaluator.run(None, _MEL | _EDGES)
    np.testing.assert_allclose(weights, wanted, atol=1e-6)


def test_mel_weights_of_computed_edges_are_refused() -> None:
    found = refusal(
        "(float x) => (float[a,b] y) <int64 n = {8}, float low = {0}>"
        " { y = MelWeightMatrix (n, n, n, low, x) }"
    )
    assert found == (
        "node 'y' (MelWeightMatrix) needs a constant for its input 4, not a tensor "
        "computed at run time: export the model with a number there, or fixed shapes"
    )
