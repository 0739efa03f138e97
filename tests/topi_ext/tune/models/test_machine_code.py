"""Cycles of fixed loops by LLVM's analyser, and what is said where it is missing."""

import shutil
from collections.abc import Iterator
from dataclasses import replace

import pytest

from topi_ext.errors import RelayLayoutError
from topi_ext.machine.processor import ARM_CORES
from topi_ext.tune.models import machine_code
from topi_ext.tune.models.assembly import Loop
from topi_ext.tune.models.machine_code import analyse, analyser, loop_cycles

needs_analyser = pytest.mark.usefixtures("llvm_mca")


def products(count: int, *others: str) -> Loop:
    """Multiply-adds into as many registers, and other instructions."""
    sums = [f"fmla v{register}.4s, v30.4s, v31.s[{register % 4}]" for register in range(count)]
    return Loop("loop", (*sums, *others))


@needs_analyser
@pytest.mark.parametrize(("core", "cycles"), [("cortex-a76", 8), ("cortex-a72", 16), ("cortex-a55", 16)])
def test_multiply_adds_alone_reach_the_peak(core: str, cycles: int) -> None:
    found = analyse(products(16), ARM_CORES[core])
    assert found.cycles == pytest.approx(cycles, rel=0.03)
    assert found.share == pytest.approx(1.0, abs=0.03)
    assert found.cycles_per_multiply_add == pytest.approx(cycles / 16, rel=0.03)


@needs_analyser
def test_the_units_are_busy_with_other_arithmetic_too() -> None:
    epilogue = [f"fadd v{register}.4s, v{register}.4s, v29.4s" for register in range(16)]
    found = analyse(products(16, *epilogue), ARM_CORES["cortex-a76"])
    assert found.share == pytest.approx(0.5, abs=0.03)
    assert found.busy == pytest.approx(1.0, abs=0.05)


@needs_analyser
def test_all_arithmetic_of_the_cortex_a55_takes_the_units_of_multiply_adds() -> None:
    others = [f"fmax v{register}.4s, v{register}.4s, v29.4s" for register in range(16, 24)]
    found = analyse(products(16, *others), ARM_CORES["cortex-a55"])
    assert found.cycles >= 24
    assert found.busy <= 1.0


@needs_analyser
def test_few_sums_wait_for_each_other() -> None:
    found = analyse(products(2), ARM_CORES["cortex-a76"])
    assert found.share < 0.6


@needs_analyser
def test_loads_take_their_cycles() -> None:
    loads = [f"ldr q{register}, [x{register - 16}]" for register in range(16, 28)]
    found = analyse(products(8, *loads), ARM_CORES["cortex-a76"])
    assert found.cycles == pytest.approx(6, rel=0.05)
    assert found.loads_per_multiply_add == 1.5


@needs_analyser
def test_an_unknown_instruction_is_one_line() -> None:
    with pytest.raises(RelayLayoutError, match=r"^llvm-mca\S* neoverse-n1: .*error: "):
        loop_cycles(Loop("loop", ("no_such_instruction x0, x1",)), "neoverse-n1")


def test_a_processor_without_a_model() -> None:
    unknown = replace(ARM_CORES["cortex-a76"], name="aarch64 NEON", scheduling_model="")
    with pytest.raises(RelayLayoutError) as raised:
        analyse(products(4), unknown)
    assert str(raised.value) == "aarch64 NEON: there is no scheduling model; name a core in the target"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """The analyser is looked for anew, before the test and after it."""
    analyser.cache_clear()
    yield
    analyser.cache_clear()


def test_no_analyser(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(RelayLayoutError) as raised:
        analyser()
    assert str(raised.value) == (
        "modelling needs llvm-mca of LLVM 16 or newer, but there is no llvm-mca on the path; install LLVM"
    )


@pytest.mark.parametrize(
    ("versions", "newest"),
    [({"llvm-mca": 14, "llvm-mca-19": 19}, "llvm-mca-19"), ({"llvm-mca": 21, "llvm-mca-19": 19}, "llvm-mca")],
)
def test_the_newest_is_taken(
    forgotten: None, monkeypatch: pytest.MonkeyPatch, versions: dict[str, int], newest: str
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in versions else None)
    monkeypatch.setattr(machine_code, "_version", lambda path: versions[path])
    assert analyser() == newest


def test_an_old_analyser(forgotten: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name == "llvm-mca" else None)
    monkeypatch.setattr(machine_code, "_version", lambda path: 14)
    with pytest.raises(RelayLayoutError) as raised:
        analyser()
    assert str(raised.value) == (
        "modelling needs llvm-mca of LLVM 16 or newer, but llvm-mca is of LLVM 14; install LLVM"
    )
