"""The hottest loops of another runtime's library for 64-bit ARM, by the analyser that models our kernels.

``python -m scripts.peer_loops onnxruntime_pybind11_state.so --target aarch64-cortex-a76``. ``analyse`` of the
command line says the same of our kernels. It needs ``aarch64-linux-gnu-objdump`` and ``llvm-mca``.
"""

import argparse
import re
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

from relay_layout.cli.output import note
from relay_layout.columns import columns
from relay_layout.errors import RelayLayoutError
from relay_layout.targets import require_cpu, resolve_target
from topi_ext.tune.models.assembly import Loop
from topi_ext.tune.models.machine_code import analyse

OBJDUMP = "aarch64-linux-gnu-objdump"
LANES = 4
LONGEST = 400
"""Instructions of a loop."""

LEAST = 32
"""Multiply-adds of vectors of a loop that is shown: register tiles have as many."""

_LINE = re.compile(r"\s+([0-9a-f]+):\t(.*)$")
_BRANCH = re.compile(r"(?:b|b\.\w+|cbn?z|tbn?z)\t(?:.*\s)?([0-9a-f]+) <")
_PRODUCT = re.compile(r"fmla\tv\d+\.4s")


def loops(lines: Iterable[str]) -> Iterator[Loop]:
    """The loops of disassembled code with no loop within them, each labelled by its address."""
    recent: deque[tuple[int, str]] = deque(maxlen=LONGEST)
    last = -1
    for line in lines:
        found = _LINE.match(line)
        if not found:
            continue
        place, text = int(found[1], 16), found[2].split("//")[0].strip()
        recent.append((place, text))
        branch = _BRANCH.match(text)
        start = int(branch[1], 16) if branch else place + 1
        if start > place:
            continue
        if recent[0][0] <= start and last < start:
            body = [text for other, text in recent if other >= start]
            # The analyser knows no addresses; a branch may go anywhere.
            body[-1] = re.sub(r"[0-9a-f]+ <.*", f"L{start:x}", body[-1])
            yield Loop(f"{start:x}", tuple(body))
        last = place


def main(arguments: list[str] | None = None) -> int:
    """Prints the loops with the most multiply-adds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--target", default="aarch64-cortex-a76")
    options = parser.parse_args(arguments)
    try:
        processor = require_cpu(resolve_target(options.target)).processor
        disassemble = [OBJDUMP, "-d", "--no-show-raw-insn", str(options.library)]
        with subprocess.Popen(disassemble, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            found = [
                loop
                for loop in loops(process.stdout)
                if sum(bool(_PRODUCT.match(line)) for line in loop.instructions) >= LEAST
                and not any("<" in line for line in loop.instructions)
            ]
        if process.returncode:
            return 2  # and it has said why
        rows = [["loop at", "multiply-adds", "loads/FMA", "share", "instructions/MAC"]]
        for loop in sorted(found, key=lambda loop: -loop.multiply_adds):
            analysis = analyse(loop, processor)
            each = len(loop.instructions) / (loop.multiply_adds * LANES)
            words = [f"{analysis.loads_per_multiply_add:.2f}", f"{analysis.share:.2f}", f"{each:.3f}"]
            rows.append([loop.label, str(loop.multiply_adds), *words])
    except (OSError, RelayLayoutError) as error:
        note(f"peer_loops: {error}")
        return 2
    print(columns(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
