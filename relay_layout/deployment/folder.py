"""The files of an exported network, and what a C++ program is built with."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tvm_ffi.libinfo import find_dlpack_include_path, find_include_path, find_libtvm_ffi

from relay_layout.artifact import Build, Content, read_artifact
from relay_layout.artifact.placement import pieces, place
from relay_layout.artifact.target import architecture_of, runs_on_host, system_of
from relay_layout.deployment.description import describe
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, InputError
from relay_layout.runtime.cpu import runtime_libraries
from topi_ext.files.whole_file import replaced
from topi_ext.messages import system_reason
from topi_ext.threads import SET_THREADS

_SOURCES = Path(__file__).with_name("cpp")
_OF_THE_USER = ("example.cpp", "CMakeLists.txt")
"""Starting points, which are not written again once they are there."""

_OF_CONTENTS = re.compile(r"network-[0-9a-f]{16}\.so|weights-[0-9a-f]{16}\.bin")

Part: TypeAlias = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Exported:
    """What was written: the target whose code it is, all bytes, and whether TVM's runtime is among it.

    The runtime of another architecture than this machine's is not at hand, and has to be put into ``lib``.
    """

    target: str
    nbytes: int
    has_runtime: bool


def export_folder(
    artifact: str | os.PathLike[str], folder: str | os.PathLike[str], target: str | None = None
) -> Exported:
    """Write the code and weights of one of an artifact's targets, and the C++ sources that run them.

    ``target`` is needed where an artifact has several. Library and weights have names of their contents, and
    ``network.txt``, which names them, is replaced last: a folder holds the network that it held before, or
    all of the new one. ``example.cpp`` and ``CMakeLists.txt`` that are there already are left as they are. Of
    a new folder nothing is left upon an error.

    ArtifactError for an artifact that is damaged or for a GPU, InputError for a target that it was not built
    for or a folder that takes no files.
    """
    held = read_artifact(Path(artifact))
    build, content = _chosen(held.manifest.builds, held.contents, target, os.fspath(artifact))
    if not runs_on_host(build.target):
        raise ArtifactError(f"{os.fspath(artifact)}: {build.name} is a GPU; exported networks run on CPUs")
    root = Path(folder)
    has_runtime, is_new = _runs_here(build), not root.exists()
    (entries,) = place([content])
    weights = list(pieces(zip(entries, content.weights.values(), strict=True)))
    parts: Mapping[str, Sequence[Part]] = {"library": [content.library], "weights": weights}
    files = {
        "library": _named("network", "so", parts["library"]),
        "weights": _named("weights", "bin", parts["weights"]),
    }
    described = describe(held.manifest, build, entries, files).encode()
    named = {name for name, _ in files.values()}
    before = named & _contents(root)
    try:
        (root / "cpp").mkdir(parents=True, exist_ok=True)
        for kind, (name, _) in files.items():
            with replaced(root / name) as file:
                file.writelines(parts[kind])
        _write_sources(root / "cpp")
        if has_runtime:
            for library in (Path(find_libtvm_ffi()), *runtime_libraries()):
                _copy(library, root / "cpp" / "lib" / library.name)
        with replaced(root / "network.txt") as file:
            file.write(described)
    except BaseException as error:
        if is_new:
            shutil.rmtree(root, ignore_errors=True)
        else:
            _remove(root, named - before)
        if isinstance(error, OSError):
            raise InputError(f"{root}: cannot be written: {system_reason(error)}") from None
        raise
    _remove(root, _contents(root) - named)
    return Exported(build.name, sum(size for _, size in files.values()) + len(described), has_runtime)


def _named(stem: str, suffix: str, parts: Sequence[Part]) -> tuple[str, int]:
    """The name of a file of these bytes, which no other bytes have, and how many they are."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return f"{stem}-{digest.hexdigest()[:16]}.{suffix}", sum(memoryview(part).nbytes for part in parts)


def _contents(root: Path) -> set[str]:
    """Names of the libraries and weights of a folder."""
    return {path.name for path in root.glob("*") if _OF_CONTENTS.fullmatch(path.name)}


def _remove(root: Path, names: Iterable[str]) -> None:
    for name in names:
        with suppress(OSError):
            (root / name).unlink()


def _chosen(
    builds: tuple[Build, ...], contents: tuple[Content, ...], target: str | None, name: str
) -> tuple[Build, Content]:
    names = [build.name for build in builds]
    if target is None and len(names) > 1:
        raise InputError(f"{name}: --target says which one to export; it was built for {', '.join(names)}")
    if target is not None and target not in names:
        raise InputError(f"{name}: not built for {target!r}; it was built for {', '.join(names)}")
    index = 0 if target is None else names.index(target)
    return builds[index], contents[index]


def _runs_here(build: Build) -> bool:
    """Whether the machine that it was built for loads the libraries of this one."""
    system, here = system_of(build.target), host.operating_system()
    return architecture_of(build.target) == host.architecture() and system in ("", here) and here == "linux"


def _write_sources(folder: Path) -> None:
    for source in sorted(_SOURCES.iterdir()):
        target = folder / source.name
        if source.name in _OF_THE_USER and target.exists():
            continue
        text = source.read_text(encoding="utf-8").replace("SET_THREADS_NAME", SET_THREADS)
        with replaced(target) as file:
            file.write(text.encode())
    for include in {Path(find_include_path()), Path(find_dlpack_include_path())}:
        for package in ("dlpack", "tvm"):
            for header in sorted((include / package).rglob("*.h")):
                _copy(header, folder / "include" / header.relative_to(include))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as file:
        file.write(source.read_bytes())
