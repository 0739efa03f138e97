"""An arm64 Debian and TVM's aarch64 wheels in a folder, for qemu's user emulation: a board without a board.

Set up once and kept in the user's cache folder; needs root on Debian, and the network. Programs of the board
run as processes of this machine, with this machine's files and network, and see the folder's libraries.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VERSION = 2
"""Of what is done below; a folder of another version is not used."""

CPU = "cortex-a76"
"""Which qemu emulates where a process does not choose another."""

SUITE = "bookworm"
PYTHON = "3.11"
"""The Python of the suite."""

PROGRAMS = {
    "qemu-aarch64-static": "qemu-user-static",
    "debootstrap": "debootstrap",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu",
    "/usr/aarch64-linux-gnu/include/pthread.h": "libc6-dev-arm64-cross",
}
"""Programs and files that are needed on this machine, and their packages: the compiler brings no headers."""

WHEELS = (
    "apache-tvm",
    "apache-tvm-ffi",
    "cloudpickle",
    "ml_dtypes",
    "numpy",
    "psutil",
    "scipy",
    "tornado",
    "typing_extensions",
)
"""What an RPC server imports, and what compiling takes on the board itself."""

_PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_24", "manylinux_2_17", "manylinux2014")
_PROJECT = Path(__file__).resolve().parents[2]
_STAMP = "recipe"
_CPU_VARIABLE = "BOARD_CPU"
_ANSWER_SECONDS = 1200.0


class BoardUnavailable(Exception):
    """Why no board can be set up here, in one line."""


@dataclass(frozen=True)
class BoardRoot:
    """A set-up board: ``system`` is the arm64 root file system, ``site`` holds the wheels' packages."""

    folder: Path

    @property
    def system(self) -> Path:
        return self.folder / "system"

    @property
    def site(self) -> Path:
        return self.folder / "site"

    @property
    def interpreter(self) -> Path:
        """The board's Python, a program of the board."""
        return self.system / f"usr/bin/python{PYTHON}"

    @property
    def python(self) -> Path:
        """Runs the board's Python.

        A script of this machine, which the board's programs too can start: the kernel need not know of qemu.
        """
        return self.system / "usr/bin/board-python"

    def environment(self, *packages: Path, cpu: str = CPU) -> dict[str, str]:
        """For a process of the board: this one's, with the board's packages after those in ``packages``.

        ``cpu`` is one of qemu's, such as "cortex-a72", or "max" with all that it can emulate.
        """
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        path = os.pathsep.join(map(str, [*packages, self.site]))
        return {**kept, "PYTHONPATH": path, "TVM_NUM_THREADS": "1", _CPU_VARIABLE: cpu}


def cache_folder() -> Path:
    """``$RELAY_LAYOUT_BOARD_CACHE``, else ``relay-layout`` in the user's cache folder."""
    chosen = os.environ.get("RELAY_LAYOUT_BOARD_CACHE", "")
    if chosen:
        return Path(chosen).resolve()
    base = os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache"
    return Path(base).resolve() / "relay-layout"


def board_root(tell: Callable[[str], None] = lambda line: None) -> BoardRoot:
    """The board, set up first where the cache holds none of this recipe, or one that lost files.

    ``tell`` is called with a line for each step. Raises :class:`BoardUnavailable`.
    """
    check_programs(PROGRAMS, tell)
    recipe = _recipe()
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:12]
    folder = cache_folder() / f"board-{SUITE}-arm64-{digest}"
    keep(folder, lambda: _set_up(folder, tell))
    return BoardRoot(folder)


def keep(folder: Path, fill: Callable[[], None]) -> None:
    """Have ``fill`` fill a folder of the cache, which is empty then, unless it is whole already."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if is_whole(folder):
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        fill()
        (folder / _STAMP).write_text(contents(folder), encoding="utf-8")


def check_programs(programs: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Install the packages of programs and files that are missing, where this is Debian and the user root."""
    missing = [package for program, package in programs.items() if _path_of(program) is None]
    if not missing:
        return
    names = " ".join(missing)
    if sys.platform != "linux" or shutil.which("apt-get") is None:
        raise BoardUnavailable(f"this is no Debian, and {names} cannot be installed")
    if os.geteuid() != 0:
        raise BoardUnavailable(f"it takes root to run apt-get install {names}")
    tell(f"installing {names}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    apt = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300"]
    run_program([*apt, "update"], env=environment)
    run_program([*apt, "install", "-y", "--no-install-recommends", *missing], env=environment)


def download_wheels(names: Sequence[str], site: Path) -> None:
    """Unpack the aarch64 wheels of the packages into ``site``, in the versions of ``constraints.txt``."""
    with tempfile.TemporaryDirectory(prefix="board-wheels-") as folder:
        constraints = Path(folder, "constraints.txt")
        constraints.write_text("".join(f"{line}\n" for line in _pins(names)), encoding="utf-8")
        options = ["--no-deps", "--only-binary=:all:", f"--python-version={PYTHON}", "--implementation=cp"]
        options += [f"--platform={platform}_aarch64" for platform in _PLATFORMS]
        pip = [sys.executable, "-m", "pip", "download", "-qq", "--disable-pip-version-check"]
        run_program([*pip, *options, f"--constraint={constraints}", f"--dest={folder}", *names])
        for wheel in sorted(Path(folder).glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(site)


def is_whole(folder: Path) -> bool:
    """Whether a folder was set up to the end and still holds every file of then, as long as it was."""
    try:
        return (folder / _STAMP).read_text(encoding="utf-8") == contents(folder)
    except OSError:
        return False


def contents(folder: Path) -> str:
    """A digest of paths and sizes of all files, but for those that Python compiles."""
    digest = hashlib.sha256()
    for base, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = Path(base, name)
            if path != folder / _STAMP:
                digest.update(f"{path.relative_to(folder)}\0{path.lstat().st_size}\n".encode())
    return digest.hexdigest()


def _set_up(folder: Path, tell: Callable[[str], None]) -> None:
    if os.geteuid() != 0:
        raise BoardUnavailable("it takes root to run debootstrap")
    root = BoardRoot(folder)
    tell(f"setting up {SUITE} arm64 in {folder}")
    base = ["debootstrap", "--arch=arm64", "--foreign", "--variant=minbase", "--include=python3"]
    run_program([*base, SUITE, str(root.system)])
    # What the second stage would do under emulation, in minutes, is not needed.
    for package in sorted((root.system / "var/cache/apt/archives").glob("*.deb")):
        run_program(["dpkg", "-x", str(package), str(root.system)])
        package.unlink()
    tell("downloading aarch64 wheels")
    download_wheels(WHEELS, root.site)
    root.python.write_text(
        f"#!/bin/sh\nexec '{_path_of('qemu-aarch64-static')}' -cpu \"${{{_CPU_VARIABLE}:-{CPU}}}\" "
        f"-L '{root.system}' -0 '{root.python}' '{root.interpreter}' \"$@\"\n",
        encoding="utf-8",
    )
    root.python.chmod(0o755)
    check = "import platform, tvm; assert platform.machine() == 'aarch64', platform.machine()"
    run_program([str(root.python), "-c", check], env=root.environment())


def _recipe() -> str:
    return "\n".join([str(VERSION), SUITE, PYTHON, CPU, *_pins(WHEELS)])


def _pins(names: Sequence[str]) -> list[str]:
    """The lines of ``constraints.txt`` for the packages, of those for newer Pythons the last."""
    pins: dict[str, str] = {}
    for line in (_PROJECT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        name = re.split(r"[=<>~! ;]", line)[0]
        if name in names:
            pins[name] = line.partition(";")[0].strip()
    return [pins[name] for name in names if name in pins]


def _path_of(program: str) -> str | None:
    if program.startswith("/"):
        return program if Path(program).exists() else None
    # Where root has no /usr/sbin on the path, debootstrap lies there all the same.
    return shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin")


def run_program(command: Sequence[str], env: dict[str, str] | None = None) -> None:
    """Run a program of this machine to its end; BoardUnavailable with its last line where it fails."""
    words = [_path_of(command[0]) or command[0], *command[1:]]
    try:
        done = subprocess.run(
            words, env=env, capture_output=True, text=True, check=False, timeout=_ANSWER_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BoardUnavailable(f"{command[0]}: {error}") from None
    if done.returncode != 0:
        lines = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        reason = lines[-1] if lines else f"exit status {done.returncode}"
        raise BoardUnavailable(f"{' '.join(map(os.path.basename, command[:4]))} failed: {reason}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
