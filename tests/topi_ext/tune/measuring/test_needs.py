"""What a machine is asked before it runs kernels, of sessions that answer at once."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm

from topi_ext.tune.measuring.library import ENTRY, Library
from topi_ext.tune.measuring.needs import Needs

A76 = [0x119FFF, 0]
PROBE = Library("/folder/kernel.so", [])


class Session:
    """A machine with a triple, empty for a TVM without LLVM, and both words of its CPU features."""

    def __init__(self, triple: str, words: list[int]) -> None:
        self._triple = triple
        self._words = words
        self.uploaded: list[str] = []

    def get_function(self, name: str) -> Callable[[], str]:
        if not self._triple:
            raise AttributeError(name)
        return lambda: self._triple

    def upload(self, path: str) -> None:
        self.uploaded.append(path)

    def load_module(self, name: str) -> dict[str, Any]:
        assert name == "kernel.so"
        return {ENTRY: lambda words: words.copyfrom(np.array(self._words, "uint64"))}

    def device(self, kind: str, index: int) -> Any:
        return tvm.device(kind, index)


@pytest.mark.parametrize(
    ("triple", "words", "expected"),
    [
        ("aarch64-linux-gnu", A76, ""),
        ("", A76, ""),
        ("aarch64-linux-gnu", [0, 0], ""),
        ("aarch64-linux-gnu", [0xFF, 0], "lacks dotprod, which the kernels need"),
        ("", [3, 0], "lacks crc, dotprod, which the kernels need"),
        ("x86_64-pc-linux-gnu", A76, "is x86_64, and kernels for aarch64 do not run there"),
    ],
    ids=["fit", "no LLVM", "tells nothing", "one feature less", "no LLVM, two features less", "x86"],
)
def test_what_a_machine_lacks(triple: str, words: list[int], expected: str) -> None:
    needs = Needs("aarch64", frozenset({"dotprod", "crc"}), PROBE)
    assert needs.unmet(Session(triple, words)) == expected


def test_without_a_probe_nothing_is_loaded() -> None:
    session = Session("x86_64-pc-linux-gnu", [0, 0])
    assert Needs("x86_64", frozenset({"avx2"})).unmet(session) == ""
    assert session.uploaded == []
