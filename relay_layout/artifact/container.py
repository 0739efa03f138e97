"""The file: a header, a library, weights and a manifest, where every byte is under a checksum or is zero.

All numbers are little endian. The parts lie in this order, each as early as its alignment allows, and the
gaps between them are zero:

    header    64 bytes: magic, u32 version, u32 flags (0), u64 offset and u64 size of the manifest,
              SHA-256 over the header's first 32 bytes and the manifest
    library   at a multiple of 64: a shared object; one for each target, in the manifest's order
    weights   at a multiple of 4096, so that it can be mapped: arrays, each at a multiple of 64, those that
              several targets share only once
    manifest  at a multiple of 64, to the end of the file: UTF-8 JSON

Since there is only one place where each part may be, parts cannot overlap, whatever a manifest claims.
"""

import hashlib
import mmap
import os
import stat
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

import numpy as np

from relay_layout.artifact.manifest import (
    MAX_MANIFEST_BYTES,
    WEIGHTS,
    Build,
    Manifest,
    Section,
    WeightEntry,
)
from relay_layout.artifact.placement import Array, Content, align, check_placement, pieces, place
from relay_layout.artifact.target import choose_target
from relay_layout.errors import ArtifactError
from topi_ext.files.whole_file import replaced
from topi_ext.messages import first_line, system_reason

FilePath = str | os.PathLike[str]

# As in PNG: the high bit and the line ends show a transfer that took the file for text.
MAGIC = b"\x89RLA\r\n\x1a\n"
FORMAT_VERSION = 8
_HEADER = struct.Struct("<8sIIQQ32s")
_DIGESTED = _HEADER.size - 32
_ALIGNMENT = 64
_WEIGHTS_ALIGNMENT = 4096
_CHUNK = 16 << 20


@dataclass(frozen=True)
class Artifact:
    """A loaded artifact. Its memory is a mapping of the file, which lasts as long as anything refers to it.

    contents: of each of the manifest's builds, in the same order.
    """

    path: str
    manifest: Manifest
    contents: tuple[Content, ...] = field(repr=False)

    def choose(self, target: str | None = None) -> tuple[Build, Content]:
        """The build for this machine, or the one named ``target``, and its content.

        Raises what :func:`relay_layout.artifact.choose_target` does.
        """
        targets = {build.name: build.target for build in self.manifest.builds}
        index = list(targets).index(choose_target(targets, target, name=_shown(self.path)))
        return self.manifest.builds[index], self.contents[index]


def write_artifact(path: FilePath, manifest: Manifest, contents: Sequence[Content]) -> None:
    """Writes an artifact to ``path``, or, upon any error, leaves what was there.

    ``contents`` belong to the manifest's builds, in the same order. The manifest's ``sections`` and the
    builds' ``weights`` are filled in here. Arrays go to the file one after the other; only one that is not
    C-contiguous and little endian is copied. A file that is being replaced stays whole for those who have it
    open.

    Raises ArtifactError for a path that cannot be written, an empty library, or an array of a dtype that
    artifacts do not hold.
    """
    name = _shown(path)
    if len(contents) != len(manifest.builds):
        raise ArtifactError(f"{name}: {len(contents)} contents for {len(manifest.builds)} builds")
    if not all(memoryview(content.library).nbytes for content in contents):
        raise ArtifactError(f"{name}: the library to be written is empty")
    try:
        tables = place(contents)
        builds = tuple(
            replace(build, weights=table) for build, table in zip(manifest.builds, tables, strict=True)
        )
        manifest = replace(manifest, builds=builds, sections=())
        # Found out now, a manifest that readers would refuse costs no writing.
        Manifest.decode(manifest.encode())
    except ArtifactError as error:
        raise ArtifactError(f"{name}: cannot be written: {error}") from None
    try:
        with replaced(path) as file:
            _write(file, manifest, contents)
    except ArtifactError:
        raise
    except OSError as error:
        raise ArtifactError(f"{name}: cannot be written: {system_reason(error)}") from error
    except ValueError as error:
        raise ArtifactError(f"{name}: cannot be written: {first_line(error)}") from error


def read_artifact(path: FilePath) -> Artifact:
    """Maps the artifact at ``path`` and checks all of it, which reads the whole file.

    Does not ask whether this machine can run it; see :func:`relay_layout.artifact.check_runnable`.

    Raises ArtifactError for a file that cannot be read, is not an artifact, comes from a newer version, is
    truncated or is damaged.
    """
    name = _shown(path)
    data = _map(path, name)
    manifest, end = _read_manifest(data, name)
    sections = _check_sections(manifest, data, end, name)
    _check_content(manifest, data, end, name)
    contents = []
    for build in manifest.builds:
        library = sections[build.section]
        code = data[library.offset : library.offset + library.size].toreadonly()
        arrays = {entry.name: _view(data, sections[WEIGHTS], entry) for entry in build.weights}
        contents.append(Content(code, arrays))
    return Artifact(os.fspath(path), manifest, tuple(contents))


def is_artifact(path: FilePath) -> bool:
    """Whether a file begins as artifacts do. OSError where it cannot be read."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _view(data: memoryview, section: Section, entry: WeightEntry) -> Array:
    kind = np.dtype(entry.dtype).newbyteorder("<")
    array: Array = np.ndarray(entry.shape, kind, buffer=data, offset=section.offset + entry.offset)
    array.flags.writeable = False
    return array


def _write(file: BinaryIO, manifest: Manifest, contents: Sequence[Content]) -> None:
    file.write(bytes(_HEADER.size))

    sections = []
    for build, content in zip(manifest.builds, contents, strict=True):
        _pad(file, _ALIGNMENT)
        start = file.tell()
        digest = hashlib.sha256()
        _write_hashed(file, memoryview(content.library).cast("B"), digest)
        sections.append(Section(build.section, start, file.tell() - start, digest.hexdigest()))

    _pad(file, _WEIGHTS_ALIGNMENT)
    start = file.tell()
    digest = hashlib.sha256()
    weights = (
        (entry, content.weights[entry.name])
        for build, content in zip(manifest.builds, contents, strict=True)
        for entry in build.weights
    )
    for piece in pieces(weights):
        _write_hashed(file, piece, digest)
    sections.append(Section(WEIGHTS, start, file.tell() - start, digest.hexdigest()))

    _pad(file, _ALIGNMENT)
    start = file.tell()
    encoded = replace(manifest, sections=tuple(sections)).encode()
    file.write(encoded)
    fixed = _HEADER.pack(MAGIC, FORMAT_VERSION, 0, start, len(encoded), b"")[:_DIGESTED]
    file.seek(0)
    file.write(fixed + hashlib.sha256(fixed + encoded).digest())


def _write_hashed(file: BinaryIO, data: memoryview, digest: "hashlib._Hash") -> None:
    for start in range(0, data.nbytes, _CHUNK):
        chunk = data[start : start + _CHUNK]
        digest.update(chunk)
        file.write(chunk)


def _pad(file: BinaryIO, alignment: int) -> None:
    file.write(bytes(align(file.tell(), alignment) - file.tell()))


def _map(path: FilePath, name: str) -> memoryview:
    try:
        # Opening a pipe would wait for a writer.
        mode = os.stat(path).st_mode
        if not stat.S_ISREG(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "not a regular file"
            raise ArtifactError(f"{name}: is {what}, not a relay-layout artifact")
        with open(path, "rb") as file:
            start = file.read(_HEADER.size)
            if not MAGIC.startswith(start[: len(MAGIC)]):
                raise _no_artifact(name)
            if len(start) < _HEADER.size:
                raise ArtifactError(
                    f"{name}: truncated: {len(start)} bytes, the header alone takes {_HEADER.size}; "
                    "build or copy the artifact again"
                )
            # Private and not read-only: DLPack takes no array that can never be made writable.
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    except ArtifactError:
        raise
    except OSError as error:
        raise ArtifactError(f"{name}: {system_reason(error)}") from error
    except ValueError as error:
        raise ArtifactError(f"{name}: cannot be read: {first_line(error)}") from error


def _no_artifact(name: str) -> ArtifactError:
    return ArtifactError(
        f"{name}: is not a relay-layout artifact (bad magic); relay-layout compile makes one of a model"
    )


def _read_manifest(data: memoryview, name: str) -> tuple[Manifest, int]:
    magic, version, flags, offset, size, digest = _HEADER.unpack(data[: _HEADER.size])
    if magic != MAGIC:
        raise _no_artifact(name)
    if version > FORMAT_VERSION:
        raise ArtifactError(
            f"{name}: has format version {version}, this relay-layout reads up to {FORMAT_VERSION}; "
            "upgrade relay-layout"
        )
    if 0 < version < FORMAT_VERSION:
        raise ArtifactError(
            f"{name}: has format version {version}, this relay-layout reads {FORMAT_VERSION}; "
            "compile the model again"
        )
    if not version or flags:
        raise _damaged(name, "header", f"unknown format version {version} or flags {flags:#x}")
    if offset + size < data.nbytes:
        raise _damaged(name, "header", f"it ends at byte {offset + size}, the file at {data.nbytes}")
    if offset + size > data.nbytes:
        raise ArtifactError(
            f"{name}: truncated, or damaged in section header: "
            f"{data.nbytes} bytes, the header counts {offset + size}; build or copy the artifact again"
        )
    if offset < _HEADER.size or size > MAX_MANIFEST_BYTES:
        raise _damaged(name, "header", f"a manifest of {size} bytes at {offset}")
    encoded = bytes(data[offset:])
    if hashlib.sha256(bytes(data[:_DIGESTED]) + encoded).digest() != digest:
        raise _damaged(name, "manifest", "checksum mismatch")
    try:
        return Manifest.decode(encoded), offset
    except ArtifactError as error:
        raise _damaged(name, "manifest", str(error)) from None


def _check_sections(manifest: Manifest, data: memoryview, end: int, name: str) -> dict[str, Section]:
    sections = {section.name: section for section in manifest.sections}
    if tuple(sections) != manifest.section_names:
        raise _damaged(name, "manifest", f"its sections are not {', '.join(manifest.section_names)}")
    position = _HEADER.size
    for section in manifest.sections:
        position = align(position, _WEIGHTS_ALIGNMENT if section.name == WEIGHTS else _ALIGNMENT)
        if section.offset != position or section.size > end - position:
            raise _damaged(name, section.name, f"{section.size} bytes at {section.offset} of {data.nbytes}")
        position += section.size
    if align(position, _ALIGNMENT) != end:
        raise _damaged(name, "manifest", f"begins at byte {end}, the section before it ends at {position}")
    try:
        check_placement(manifest.builds, sections[WEIGHTS].size)
    except ArtifactError as error:
        raise _damaged(name, WEIGHTS, str(error)) from None
    return sections


def _check_content(manifest: Manifest, data: memoryview, end: int, name: str) -> None:
    position = _HEADER.size
    for section in manifest.sections:
        if any(data[position : section.offset]):
            raise _damaged(name, section.name, "the padding before it is not zero")
        position = section.offset + section.size
        if hashlib.sha256(data[section.offset : position]).hexdigest() != section.sha256:
            raise _damaged(name, section.name, "checksum mismatch")
    if any(data[position:end]):
        raise _damaged(name, "manifest", "the padding before it is not zero")


def _damaged(name: str, section: str, why: str) -> ArtifactError:
    return ArtifactError(f"{name}: damaged in section {section}: {why}; build or copy the artifact again")


def _shown(path: FilePath) -> str:
    text = os.fspath(path)
    # Messages are one line, and a file name may hold a line end.
    return text if text and text.isprintable() else repr(text)
