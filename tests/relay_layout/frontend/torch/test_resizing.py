"""Resizing by sizes and factors, of extents that are known and that are not, beside PyTorch's numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402
from torch.nn.functional import interpolate  # noqa: E402

from relay_layout import from_torch  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

SHAPES = {
    1: [(2, 3, 11), (1, 3, 16)],
    2: [(2, 3, 9, 7), (1, 3, 12, 14), (3, 3, 16, 5)],
    3: [(2, 3, 5, 6, 7), (1, 3, 8, 7, 4)],
}
"""By how many axes are resized."""

MODES = {
    1: ("nearest", "nearest-exact", "linear"),
    2: ("nearest", "nearest-exact", "bilinear", "bicubic"),
    3: ("nearest", "nearest-exact", "trilinear"),
}
SIZES = {1: (7,), 2: (12, 5), 3: (3, 9, 8)}
FACTORS = (2.0, 1.5, 0.6, 0.5, 1.05)
"""Of 1.05 some extents stay, while some modes read other elements than then."""
JUST_ABOVE_TWO = 2.05
"""As for 1.05; of open extents it is no fraction, as doubles round its multiples."""


def functions(rank: int, factors: Sequence[float]) -> Functions:
    resizes: dict[str, dict[str, Any]] = {}
    for mode in MODES[rank]:
        resizes[f"{mode} to a size"] = {"mode": mode, "size": SIZES[rank]}
        for factor in factors:
            resizes[f"{mode} by {factor}"] = {"mode": mode, "scale_factor": factor}
        if not mode.startswith("nearest"):
            corners = {"mode": mode, "align_corners": True}
            resizes[f"{mode} between corners"] = corners | {"size": SIZES[rank]}
            resizes[f"{mode} between corners by a half"] = corners | {"scale_factor": 0.5}
        if mode.startswith("bi"):
            for size in ((4, 3), (19, 21)):
                resizes[f"{mode} antialiased to {size}"] = {"mode": mode, "size": size, "antialias": True}
            for factor in (0.6, 0.5):
                given = {"mode": mode, "scale_factor": factor, "antialias": True}
                resizes[f"{mode} antialiased by {factor}"] = given
    return {name: lambda x, given=given: interpolate(x, **given) for name, given in resizes.items()}


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_resizes_agree(rank: int, is_open: bool, tmp_path: Path) -> None:
    model = Every(functions(rank, FACTORS if is_open else (*FACTORS, JUST_ABOVE_TWO))).eval()
    sizes = SHAPES[rank] if is_open else SHAPES[rank][:1]
    axes = {axis: Dim.AUTO for axis in (0, *range(2, rank + 2))}
    dynamic = ((axes,),) if is_open else None
    session = session_of(model, tmp_path, (torch.randn(sizes[0]),), dynamic_shapes=dynamic)
    for size in sizes:
        assert_agrees(session, model, (torch.randn(size),), str(size))


def test_halves_are_interpolated_in_single_precision(tmp_path: Path) -> None:
    model = Every({"up": lambda x: interpolate(x, scale_factor=1.7, mode="bilinear")}).eval()
    image = torch.randn(2, 3, 9, 7).half()
    assert_agrees(session_of(model, tmp_path, (image,)), model, (image,))


@pytest.mark.parametrize("antialias", [False, True])
def test_integers_are_not_interpolated(antialias: bool) -> None:
    model = Every({"up": lambda x: interpolate(x, (5, 4), mode="bilinear", antialias=antialias)}).eval()
    with pytest.raises(ModelError) as raised:
        from_torch(model, (torch.zeros(1, 3, 9, 7, dtype=torch.uint8),))
    name = "_upsample_bilinear2d_aa" if antialias else "upsample_bilinear2d"
    assert str(raised.value) == (
        f"node '{name}': a resize that interpolates between elements of uint8 is not supported; "
        "convert them to floats"
    )


@pytest.mark.parametrize("factor", [0.1, 0.25])
@pytest.mark.parametrize("mode", MODES[2])
def test_open_extents_may_shrink_to_one(mode: str, factor: float, tmp_path: Path) -> None:
    """Export fixes a result of one element, while the image stays open."""
    model = Every({"down": lambda x: interpolate(x, scale_factor=factor, mode=mode)}).eval()
    sizes = ((10, 14), (13, 17)) if factor == 0.1 else ((9, 7), (13, 6))
    images = [torch.randn(1, 2, *size) for size in sizes]
    session = session_of(model, tmp_path, images[:1], dynamic_shapes=(({2: Dim.AUTO, 3: Dim.AUTO},),))
    for image in images:
        assert_agrees(session, model, (image,))
