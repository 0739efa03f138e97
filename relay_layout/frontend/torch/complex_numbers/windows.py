"""PyTorch's transforms of windows of a signal, by convolutions with the rows of the matrix of the transform.

Rules are as those of :mod:`relay_layout.frontend.torch.rules`; the complex tensors in them become
pairs afterwards. Signals may be of any length.
"""

from typing import Any

import torch
from torch import Tensor

from relay_layout.errors import ModelError
from relay_layout.frontend.operators.fourier import LARGEST_MATRIX
from relay_layout.frontend.torch.complex_numbers.fourier import matrix
from relay_layout.frontend.torch.rules.rule import Rule, aten


def _window(window: Tensor | None, win_length: int | None, n_fft: int) -> Tensor:
    """float64 [n_fft], of zeros around the window."""
    if window is not None and window.is_complex():
        raise ModelError("transforms of a signal by a complex window are not supported")
    length = win_length or n_fft
    given = torch.ones(length, dtype=torch.float64) if window is None else window.to(torch.float64)
    before = (n_fft - length) // 2
    return torch.nn.functional.pad(given, (before, n_fft - length - before))


def _forward(
    signal: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Any:
    """``stft``: complex [..., frequencies, windows]."""
    onesided = not signal.is_complex() if onesided is None else onesided
    parts = [signal.real, signal.imag] if signal.is_complex() else [signal]
    _check(n_fft)
    rows = matrix(n_fft, len(parts), n_fft, inverse=False, onesided=onesided)
    weight = rows * _window(window, win_length, n_fft) * (n_fft**-0.5 if normalized else 1.0)
    weight = weight.reshape(-1, len(parts), n_fft).to(parts[0].dtype)
    batch = torch.stack(parts, -2) if signal.ndim == 2 else torch.stack(parts, -2).unsqueeze(0)
    found = torch.nn.functional.conv1d(batch, weight, stride=hop_length or n_fft // 4)
    found = found if signal.ndim == 2 else found.squeeze(0)
    real, imaginary = found.split(weight.shape[0] // 2, -2)
    joined = signal.is_complex() if return_complex is None else return_complex
    return torch.complex(real, imaginary) if joined else torch.stack([real, imaginary], -1)


def _forward_centered(
    signal: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    *further: Any,
    **options: Any,
) -> Any:
    """``stft`` whose windows may begin and end beyond the signal."""
    if center:
        parts = [signal.real, signal.imag] if signal.is_complex() else [signal]
        padded = torch.stack(parts) if signal.ndim == 2 else torch.stack(parts).unsqueeze(1)
        ends = torch.nn.functional.pad(padded, (n_fft // 2, n_fft // 2), pad_mode)
        parts = [*(ends if signal.ndim == 2 else ends.squeeze(1)).unbind()]
        signal = torch.complex(*parts) if signal.is_complex() else parts[0]
    return _forward(signal, n_fft, hop_length, win_length, window, *further, **options)


def _backward(
    spectrum: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: Any = None,
    return_complex: bool = False,
) -> Any:
    """``istft``: the windows added where they lie, over the sum of the squares of their weights."""
    _check(n_fft)
    hop = hop_length or n_fft // 4
    if not return_complex:
        # Real results are those of one half, whatever the other one is.
        spectrum = spectrum.narrow(-2, 0, n_fft // 2 + 1)
    given, ends = spectrum.shape[-2], 2 if return_complex else 1
    rows = matrix(given, 2, n_fft, inverse=True, onesided=not return_complex)
    weights = _window(window, win_length, n_fft)
    scale = n_fft**-0.5 if normalized else 1 / n_fft
    # To the weight of a transposed convolution, [parts * frequencies, parts of results, places].
    kernel = (rows * scale).permute(2, 3, 0, 1).reshape(2 * given, ends, n_fft) * weights
    pairs = torch.view_as_real(spectrum)
    data = torch.cat([pairs.select(-1, 0), pairs.select(-1, 1)], -2)
    data = data if spectrum.ndim == 3 else data.unsqueeze(0)
    added = torch.nn.functional.conv_transpose1d(data, kernel.to(data.dtype), stride=hop)
    ones = torch.ones((1, 1, data.shape[-1]), dtype=data.dtype)
    squares = (weights * weights).reshape(1, 1, -1).to(data.dtype)
    envelope = torch.nn.functional.conv_transpose1d(ones, squares, stride=hop)
    whole = n_fft + hop * (data.shape[-1] - 1)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - start
    result = added[..., start:end] / envelope[..., start:end]
    if length is not None and isinstance(whole, int) and end > whole:
        result = torch.nn.functional.pad(result, (0, end - whole))
    result = result if spectrum.ndim == 3 else result.squeeze(0)
    return torch.complex(*result.unbind(-2)) if return_complex else result.squeeze(-2)


def _check(n_fft: int) -> None:
    if 2 * n_fft * n_fft > LARGEST_MATRIX:
        raise ModelError(
            f"transforms of windows of {n_fft} elements are not supported: their matrix is too large"
        )


RULES: dict[Any, Rule] = {
    aten.istft.default: _backward,
    aten.stft.center: _forward_centered,
    aten.stft.default: _forward,
}
"""By operation."""
