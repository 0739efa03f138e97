"""Discrete Fourier transforms of PyTorch, as they are compiled."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from relay_layout.errors import ModelError  # noqa: E402
from relay_layout.frontend import from_torch  # noqa: E402
from relay_layout.frontend.torch.complex_numbers import fourier  # noqa: E402
from tests.relay_layout.frontend.torch.complex_numbers.programs import assert_keeps  # noqa: E402
from tests.relay_layout.frontend.torch.harness import (  # noqa: E402
    Every,
    Functions,
    assert_agrees,
    session_of,
)

BATCH = torch.export.Dim("batch", min=1, max=8)
SIGNALS = torch.randn(2, 5, 12, dtype=torch.complex64, generator=torch.Generator().manual_seed(0))

TRANSFORMS: Functions = {
    "forward": lambda x: torch.fft.fft(x, dim=1),
    "inverse": lambda x: torch.fft.ifft(x, norm="ortho"),
    "longer": lambda x: torch.fft.fft(x, n=17, norm="forward"),
    "shifted": lambda x: torch.fft.fftshift(x, dim=(1, 2)) + torch.fft.ifftshift(x),
    "of reals": lambda x: torch.fft.rfft(x.real, dim=1),
    "to reals": lambda x: torch.fft.irfft(x) + torch.fft.irfft(x[..., :-1], n=22),
}


class Convolved(nn.Module):
    """Filters images by learned weights of their frequencies, and by a dense layer of both parts."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 6, 5, 2))
        self.mixed = nn.Conv2d(6, 6, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        spectrum = torch.fft.rfft2(image, norm="ortho") * torch.view_as_complex(self.weight)
        mixed = self.mixed(torch.cat([spectrum.real, spectrum.imag], 1)).relu()
        real, imaginary = mixed.chunk(2, 1)
        return image + torch.fft.irfft2(torch.complex(real, imaginary), s=image.shape[-2:], norm="ortho")


def test_transforms() -> None:
    assert_keeps(TRANSFORMS, SIGNALS)


def test_long_transforms_are_split(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "LARGEST_MATRIX", 100)
    functions: Functions = {
        "forward": torch.fft.fft,
        "inverse": torch.fft.ifft,
        "of reals": lambda x: torch.fft.rfft(x.real),
        "to reals": lambda x: torch.fft.irfft(x, n=12) + torch.fft.irfft(x, n=15)[..., :12],
    }
    assert_keeps(functions, SIGNALS)


def test_a_filter_of_frequencies_of_any_batch(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, image = Convolved().eval(), torch.randn(2, 3, 6, 8)
    session = session_of(model, tmp_path, (image,), dynamic_shapes=({0: BATCH},))
    for batch in (image, image[:1], torch.cat([image, image[:1]])):
        assert_agrees(session, model, (batch,), f"{len(batch)} images")


def test_transforms_of_open_lengths_are_refused() -> None:
    model = Every({"transform": lambda x: torch.fft.rfft(x).abs()}).eval()
    with pytest.raises(ModelError) as caught:
        from_torch(model, (torch.ones(2, 6),), dynamic_shapes=(({1: torch.export.Dim("n", min=2)},),))
    assert str(caught.value) == (
        "torch program: node '_fft_r2c': a Fourier transform along axis 1, which is open, is not supported; "
        "give it a length"
    )


def test_long_transforms_of_a_prime_length_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fourier, "LARGEST_MATRIX", 100)
    with pytest.raises(ModelError) as caught:
        from_torch(Every({"transform": lambda x: torch.fft.fft(x).abs()}).eval(), (torch.ones(2, 11),))
    assert str(caught.value) == (
        "torch program: node '_fft_r2c': a Fourier transform of 11 elements, a prime number of them, is not "
        "supported; give it another length"
    )
