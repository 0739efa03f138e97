"""Counts of executed instructions: exact for a loop, and ours beside ONNX Runtime's."""

import subprocess
from pathlib import Path

import pytest

from relay_layout.models import build
from tests.board.counted import MARK
from tests.board.counting import PEER, InstructionCounter, counts, multiply_accumulates
from tests.board.networks import LAYOUTS
from tests.board.root import BoardRoot, BoardUnavailable

LOOP = """
#define CLOSE 57
#define EXIT 93
static long call(long number, long argument)
{
    register long x0 __asm__("x0") = argument, x8 __asm__("x8") = number;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8) : "memory");
    return x0;
}
void _start(void)
{
    long turns = TURNS;
    call(CLOSE, MARK);
    __asm__ volatile("0: subs %0, %0, #1\\n b.ne 0b" : "+r"(turns) : : "cc");
    call(CLOSE, MARK);
    call(EXIT, 0);
}
"""
"""Without a C library, whose headers no compiler for another machine need bring."""


@pytest.fixture
def counter(root: BoardRoot, tmp_path: Path) -> InstructionCounter:
    try:
        return InstructionCounter(root, tmp_path)
    except BoardUnavailable as error:
        pytest.skip(f"no counter of instructions: {error}")


def test_a_loop_is_counted_exactly(counter: InstructionCounter, tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    source.write_text(LOOP, encoding="utf-8")

    def instructions(turns: int) -> int:
        program = tmp_path / f"loop-{turns}"
        words = ["-O1", "-static", "-nostdlib", f"-DTURNS={turns}", f"-DMARK={MARK}", f"-o{program}"]
        subprocess.run(["aarch64-linux-gnu-gcc", *words, str(source)], check=True)
        return counter.count(program, [])[1]

    short, long = instructions(1000), instructions(51000)
    assert long - short == 2 * 50000


def test_multiply_accumulates_of_resnet18() -> None:
    # Its convolutions make 1.8136 billion and the dense layer 512 * 1000.
    assert multiply_accumulates(build("resnet18")) == 1_814_073_344


@pytest.mark.slow
def test_resnet18_takes_fewer_than_onnx_runtime(counter: InstructionCounter, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    network = build("resnet18", image_size=64)
    found = counts(counter, network, [(layout, True) for layout in LAYOUTS], tmp_path)
    theirs = found.pop((PEER, "", False))
    assert theirs > 0.25 * multiply_accumulates(network)
    assert set(found) == {("relay-layout", layout, True) for layout in LAYOUTS}
    assert all(executed < theirs for executed in found.values()), (found, theirs)
