"""How many cycles a loop takes, by LLVM's machine-code analyser and its model of the core."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache, lru_cache

from topi_ext.errors import RelayLayoutError
from topi_ext.machine.processor import Processor
from topi_ext.tune.models.assembly import Loop

TOOL = "llvm-mca"
OLDEST = 16
"""LLVM's first release with a scheduling model of the Neoverse N1."""

_INSTRUCTIONS = 20_000
"""Simulated for one loop, so that filling the pipeline does not count."""

_FEATURES = "+fullfp16,+dotprod,+i8mm,+bf16"
_CYCLES = re.compile(r"^Total Cycles:\s+(\d+)", re.MULTILINE)
_VERSION = re.compile(r"LLVM version (\d+)")


@dataclass(frozen=True)
class Analysis:
    """One iteration of a loop on one core.

    ``cycles`` are at least what the core's vector units need, which start ``operations_per_cycle`` operations
    on whole vectors each cycle, ``per_cycle`` multiply-adds among them.
    """

    loop: Loop
    cycles: float
    per_cycle: int
    operations_per_cycle: int

    @property
    def cycles_per_multiply_add(self) -> float:
        return self.cycles / self.loop.multiply_adds

    @property
    def share(self) -> float:
        """The share of the multiply-adds that the core can do in the time which the loop does."""
        return self.loop.multiply_adds / self.per_cycle / self.cycles

    @property
    def busy(self) -> float:
        """The share of the vector instructions that the core can start in the time which the loop has.

        More than ``share`` where the loop holds the activation of a tile as well.
        """
        return self.loop.vector_operations / self.operations_per_cycle / self.cycles

    @property
    def loads_per_multiply_add(self) -> float:
        return self.loop.loads / self.loop.multiply_adds


def analyse(loop: Loop, processor: Processor) -> Analysis:
    """The analysis of a loop that multiplies; RelayLayoutError without the tool or a model of the core."""
    if not processor.scheduling_model:
        raise RelayLayoutError(f"{processor.name}: there is no scheduling model; name a core in the target")
    at_once, operations_at_once = processor.fma_per_cycle, processor.operations_per_cycle
    least = max(loop.multiply_adds / at_once, loop.vector_operations / operations_at_once)
    cycles = max(least, loop_cycles(loop, processor.scheduling_model))
    return Analysis(loop, cycles, at_once, operations_at_once)


@lru_cache(maxsize=4096)
def loop_cycles(loop: Loop, model: str) -> float:
    """Cycles of one iteration in LLVM's model of a core, all loads hitting the level-1 cache.

    RelayLayoutError where its analyser gives none.
    """
    iterations = max(20, _INSTRUCTIONS // len(loop.instructions))
    words = [analyser(), "-mtriple=aarch64-linux-gnu", f"-mcpu={model}", f"-mattr={_FEATURES}"]
    words += [f"-iterations={iterations}", "-instruction-info=false", "-resource-pressure=false"]
    done = subprocess.run(
        words, input="\n".join(loop.instructions), capture_output=True, text=True, check=False
    )
    found = _CYCLES.search(done.stdout)
    if found is None:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        raise RelayLayoutError(f"{words[0]} {model}: {lines[0] if lines else 'no cycles in its output'}")
    return int(found[1]) / iterations


@cache
def analyser() -> str:
    """The newest analyser on the path; RelayLayoutError where there is none that is new enough."""
    names = [TOOL, *(f"{TOOL}-{version}" for version in range(OLDEST, 40))]
    versions = {name: _version(path) for name in names if (path := shutil.which(name))}
    newest = max(versions, key=lambda name: versions[name], default="")
    if not newest or versions[newest] < OLDEST:
        has = f"{newest} is of LLVM {versions[newest]}" if newest else f"there is no {TOOL} on the path"
        raise RelayLayoutError(f"modelling needs {TOOL} of LLVM {OLDEST} or newer, but {has}; install LLVM")
    return newest


def _version(path: str) -> int:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = _VERSION.search(done.stdout)
    return int(found[1]) if found else 0
