"""Instructions that networks execute on the emulated board, ours beside ONNX Runtime's wheel for it."""

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path

import numpy as np

import relay_layout
from relay_layout.models import Network, export_onnx
from tests.board.counted import MARK
from tests.board.networks import TARGET, TOLERANCE
from tests.board.root import CPU, BoardRoot, check_programs, download_wheels, keep, run_program

PROGRAMS = {"qemu-aarch64": "qemu-user", "cc": "gcc"}
"""Programs that are needed besides the board's, and their packages: static qemu loads no plugins."""

PEER = "onnxruntime"
OURS = "relay-layout"

_PLUGIN = Path(__file__).with_name("instructions.c")
_PROJECT = Path(__file__).resolve().parents[2]
_SECONDS = 1800.0

_CPUINFO = """processor\t: 0
BogoMIPS\t: 100.00
Features\t: fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x4
CPU part\t: 0xd0b
CPU revision\t: 1
"""
"""As Linux describes a Cortex-A76. qemu 7.2 shows programs this machine's, which ends ONNX Runtime."""


class InstructionCounter:
    """Runs Python on an emulated board and counts what it executes between its marks.

    ``folder`` takes files. Raises BoardUnavailable where a program is missing that cannot be installed.
    """

    def __init__(
        self, root: BoardRoot, folder: Path, tell: Callable[[str], None] = lambda line: None
    ) -> None:
        check_programs(PROGRAMS, tell)
        self._root = root
        self._counts = folder / "instructions.txt"
        self._plugin = folder / "instructions.so"
        run_program(["cc", "-O2", "-shared", "-fPIC", f"-o{self._plugin}", str(_PLUGIN)])
        self._system = folder / "system"
        _with_cpuinfo(root.system, self._system)

    def count(self, program: Path, words: Sequence[str], packages: Sequence[Path] = ()) -> list[int]:
        """Instructions before the first mark and between each two of a program of the board.

        Python finds ``packages`` before the board's own.
        """
        options = ["-plugin", f"{self._plugin},out={self._counts},mark={MARK}"]
        subprocess.run(
            ["qemu-aarch64", *options, "-cpu", CPU, "-L", str(self._system), str(program), *words],
            env={**self._root.environment(*packages), "OMP_NUM_THREADS": "1"},
            check=True,
            timeout=_SECONDS,
        )
        return [int(line) for line in self._counts.read_text(encoding="utf-8").splitlines()]

    def count_run(self, runtime: str, model: Path, image: np.ndarray) -> tuple[int, list[np.ndarray]]:
        """Instructions of one run of a network after another, and its outputs, in :data:`PEER` or ours."""
        packages = [_PROJECT, *([peer_site(self._root)] if runtime == PEER else [])]
        with tempfile.TemporaryDirectory(prefix="board-counted-") as folder:
            given, made = Path(folder, "image.npz"), Path(folder, "outputs.npz")
            np.savez(given, image=image)
            words = ["-m", "tests.board.counted", runtime, str(model), str(given), str(made)]
            _, executed = self.count(self._root.interpreter, words, packages)
            with np.load(made) as outputs:
                return executed, list(outputs.values())


def peer_site(root: BoardRoot) -> Path:
    """A folder of the cache with ONNX Runtime's wheel for the board."""
    folder = root.folder.with_name(f"{root.folder.name}-{PEER}")
    keep(folder, lambda: download_wheels([PEER], folder))
    return folder


def multiply_accumulates(network: Network) -> int:
    """Of its convolutions and dense layers, as they are defined."""
    total = 0
    for node in network.nodes:
        for parameter in node.parameters:
            if len(parameter.shape) > 1:
                results = prod(int(extent) for extent in node.output.shape)
                total += results // parameter.shape[0] * prod(parameter.shape)
    return total


def counts(
    counter: InstructionCounter, network: Network, variants: Sequence[tuple[str, bool]], folder: Path
) -> dict[tuple[str, str, bool], int]:
    """Instructions of a run on one thread, by runtime, layout and whether Winograd convolutions are allowed.

    Ours in ``variants``, compiled for the board with the package's records, and first of all ONNX Runtime's,
    whose layout is "". AssertionError where outputs differ.
    """
    shape = [int(extent) for extent in network.inputs[0].shape]
    image = np.random.default_rng(7).standard_normal(shape, dtype=np.float32)
    model, artifact = folder / "network.onnx", folder / "network.rla"
    export_onnx(network, model)
    executed, expected = counter.count_run(PEER, model, image)
    found = {(PEER, "", False): executed}
    for layout, winograd in variants:
        made = relay_layout.compile(str(model), target=TARGET, desired_layout=layout, winograd=winograd)
        made.save(artifact)
        executed, outputs = counter.count_run(OURS, artifact, image)
        for one, other in zip(outputs, expected, strict=True):
            assert np.abs(one - other).max() < TOLERANCE * np.abs(other).max(), f"{layout} is off"
        found[OURS, layout, winograd] = executed
    return found


def _with_cpuinfo(system: Path, folder: Path) -> None:
    """A system of links to the files of another, and a description of its processor."""
    (folder / "proc").mkdir(parents=True)
    (folder / "proc/cpuinfo").write_text(_CPUINFO, encoding="utf-8")
    for name in ("bin", "etc", "lib", "usr"):
        (folder / name).symlink_to(system / name)
