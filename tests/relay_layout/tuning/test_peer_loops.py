"""Loops of disassembled code, found in a fixed text."""

from pathlib import Path

import pytest

from scripts.peer_loops import loops, main

DISASSEMBLY = """
0000000000001000 <kernel>:
    1000:\tmov\tx8, xzr
    1004:\tldr\tq1, [x0], #16
    1008:\tfmla\tv0.4s, v1.4s, v2.s[0]
    100c:\tsubs\tx3, x3, #0x1
    1010:\tb.ne\t1008 <kernel+0x8>  // b.any
    1014:\tcbnz\tx4, 1004 <kernel+0x4>
    1018:\tb\t1020 <other>
    101c:\tret
"""


def test_only_loops_without_a_loop_in_them() -> None:
    (loop,) = loops(DISASSEMBLY.splitlines())
    assert loop.label == "1008"
    assert loop.instructions == ("fmla\tv0.4s, v1.4s, v2.s[0]", "subs\tx3, x3, #0x1", "b.ne\tL1008")


def test_an_unknown_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "library.so"), "--target", "aarch64-warp9"]) == 2
    assert capsys.readouterr().err.startswith("peer_loops: target 'aarch64-warp9' is not known")
