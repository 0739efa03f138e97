"""Transforms of windows of a signal, there and back, of any length."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.relay_layout.frontend.torch.complex_numbers.programs import rewritten  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, assert_agrees, session_of  # noqa: E402

WINDOW = torch.hann_window(8) + 0.1
SIGNALS = torch.randn(2, 40, generator=torch.Generator().manual_seed(0))


def there_and_back(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.stft(x, 10, 3, 8, WINDOW, return_complex=True)
    louder = spectrum * torch.sigmoid(spectrum.abs().mean(-2, keepdim=True))
    return torch.istft(louder, 10, 3, 8, WINDOW, length=37)


FUNCTIONS = {
    "not centered": lambda x: torch.stft(x, 8, 4, window=WINDOW, center=False, return_complex=True).abs(),
    "one signal": lambda x: torch.stft(x[0], 8, pad_mode="constant", return_complex=True).imag,
    "parts as results": lambda x: torch.stft(x, 8, window=WINDOW, return_complex=False),
    "back": there_and_back,
    "back from halves that do not mirror one another": lambda x: torch.istft(
        torch.complex(x[0].reshape(8, 5), x[1].reshape(8, 5)), 8, onesided=False
    ),
    "back to complex signals": lambda x: (
        torch.istft(
            torch.stft(x, 8, onesided=False, return_complex=True), 8, onesided=False, return_complex=True
        ).imag
    ),
}


def test_windows() -> None:
    model = Every(FUNCTIONS)
    found = rewritten(model, (SIGNALS,))(SIGNALS)
    for name, have, want in zip(FUNCTIONS, found, model(SIGNALS), strict=True):
        assert have.shape == want.shape, name
        torch.testing.assert_close(
            have, want, rtol=1e-5, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_signals_of_any_length(tmp_path: Path) -> None:
    model = Every({"back": there_and_back}).eval()
    dims = {0: torch.export.Dim("batch", min=1, max=8), 1: torch.export.Dim("length", min=40, max=400)}
    session = session_of(model, tmp_path, (SIGNALS,), dynamic_shapes=((dims,),))
    for signals in (SIGNALS, SIGNALS[:1], torch.cat([SIGNALS, SIGNALS[:, 1:28]], 1)):
        assert_agrees(session, model, (signals,), str(signals.shape))
