"""The package on an aarch64 host: its wheel, unpacked on the emulated board, compiles and runs there."""

import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from relay_layout.cli.npz import read_arrays, write_arrays
from tests.board.networks import by_onnx_runtime, exported, largest_error, small
from tests.board.root import BoardRoot

NETWORK = "squeezenet1_1"
_PROJECT = Path(__file__).resolve().parents[2]
_SECONDS = 3600.0


def native_error(root: BoardRoot, folder: Path) -> float:
    """Compile :data:`NETWORK` on the board with ``--target native`` and run it; the largest error."""
    network, image = small(NETWORK)
    shape = ",".join(map(str, image.shape))
    outputs = compiled_there(root, folder, [NETWORK, f"--input-shape=input:{shape}"], {"input": image})
    return largest_error(outputs, by_onnx_runtime(exported(network, "float32", folder), image))


def compiled_there(
    root: BoardRoot, folder: Path, words: list[str], inputs: Mapping[str, np.ndarray]
) -> Mapping[str, np.ndarray]:
    """The outputs of what ``relay-layout compile`` makes of ``words`` on the board, run there.

    The cross compiler of this machine links, since the board's files hold no compiler. CalledProcessError
    where a step fails. ``folder`` takes the files.
    """
    package = _installed(folder)
    given, made, artifact = (folder / file for file in ("in.npz", "out.npz", "network.rla"))
    write_arrays(str(given), dict(inputs))
    environment = {**root.environment(package), "CC": "aarch64-linux-gnu-gcc"}
    for verb in (
        ["compile", *words, "--target=native", "--threads=1", f"--output={artifact}"],
        ["run", str(artifact), "--threads=1", f"--inputs={given}", f"--outputs={made}", "--repeat=1"],
    ):
        subprocess.run(
            [str(root.python), "-m", "relay_layout", *verb],
            env=environment,
            cwd=folder,
            check=True,
            timeout=_SECONDS,
        )
    return read_arrays(str(made))


def _installed(folder: Path) -> Path:
    """The project's wheel, built here and unpacked."""
    wheels, package = folder / "wheels", folder / "package"
    pip = [sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "--disable-pip-version-check"]
    subprocess.run([*pip, f"--wheel-dir={wheels}", str(_PROJECT)], check=True, timeout=_SECONDS)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package
