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
#include <stdlib.h>
#include <unistd.h>
int main(int arguments, char **values)
{
    long turns = atol(values[1]);
    close(%d);
    __asm__ volatile("0: subs %%0, %%0, #1\\n b.ne 0b" : "+r"(turns) : : "cc");
    close(%d);
    return 0;
}
"""


@pytest.fixture
def counter(root: BoardRoot, tmp_path: Path) -> InstructionCounter:
    try:
        return InstructionCounter(root, tmp_path)
    except BoardUnavailable as error:
        pytest.skip(f"no counter of instructions: {error}")


def test_a_loop_is_counted_exactly(counter: InstructionCounter, tmp_path: Path) -> None:
    source, program = tmp_path / "loop.c", tmp_path / "loop"
    source.write_text(LOOP % (MARK, MARK), encoding="utf-8")
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-static", f"-o{program}", str(source)], check=True)
    short, long = (counter.count(program, [str(turns)])[1] for turns in (1000, 51000))
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
