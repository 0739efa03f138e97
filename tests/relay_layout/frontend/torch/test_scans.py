"""Running extremes, running sums of exponentials and what counts by them, along axes of open extents."""

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch.export import Dim  # noqa: E402

from tests.relay_layout.frontend.torch.harness import Every, Functions, assert_agrees, session_of  # noqa: E402

FUNCTIONS: Functions = {
    "largest": lambda x: torch.cummax(x, 1)[0],
    # Of equal elements the last place counts.
    "places of integers": lambda x: torch.cummin((x * 2).to(torch.int64), 0)[1],
    "exponentials beyond a float": lambda x: torch.logcumsumexp(x * 60, -1),
    "what is there most often": lambda x: torch.mode(x.round(), 1)[0],
}


def test_along_open_axes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Every(FUNCTIONS).eval()
    shapes = ({0: Dim.AUTO, 1: Dim.AUTO},)
    session = session_of(model, tmp_path, (torch.randn(4, 9),), dynamic_shapes=(shapes,))
    for size in ((4, 9), (7, 5)):
        assert_agrees(session, model, (torch.randn(size),), str(size))
