"""Times of the calls of a session."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from relay_layout.errors import InputError
from relay_layout.runtime.profiling import profile


class Session:
    """Every run makes one call more than the one before."""

    on_gpu, threads = False, 1

    def __init__(self) -> None:
        self.observer: Callable[..., int] | None = None
        self.runs: Iterator[int] = iter(range(1, 100))

    def feed(self, inputs: dict[str, np.ndarray]) -> None:
        pass

    def observe(self, observer: Callable[..., int]) -> None:
        self.observer = observer

    def execute(self) -> None:
        for _ in range(next(self.runs) if self.observer else 0):
            for before in (True, False):
                if self.observer:
                    self.observer(None, "kernel", before, None)


def test_runs_with_different_calls_have_no_times() -> None:
    session: Any = Session()
    with pytest.raises(
        InputError, match=r"^runs called 2 to 4 kernels, so that no call has a time of its own"
    ):
        profile(session, {}, repeat=3)
