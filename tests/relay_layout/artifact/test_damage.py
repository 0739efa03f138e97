"""Damaged and foreign files: none gets through as an artifact."""

import os
import random
import struct
from pathlib import Path

import pytest
from artifact_harness import refusal

from relay_layout.artifact import container, read_artifact
from relay_layout.errors import ArtifactError


@pytest.fixture(params=["small", "double"])
def either(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def test_every_flipped_byte_is_found(either: Path) -> None:
    whole = either.read_bytes()
    manifest_offset = struct.unpack_from("<Q", whole, 16)[0]
    sections = {section.name: section for section in read_artifact(either).manifest.sections}
    with open(either, "r+b", buffering=0) as file:
        for position, byte in enumerate(whole):
            for mask in (0xFF, 1 << position % 8):
                os.pwrite(file.fileno(), bytes([byte ^ mask]), position)
                message = refusal(either)
            os.pwrite(file.fileno(), whole[position : position + 1], position)
            for name, section in sections.items():
                if section.offset <= position < section.offset + section.size:
                    assert f"damaged in section {name}: checksum mismatch" in message
            if position >= manifest_offset:
                assert "damaged in section manifest: checksum mismatch" in message
    read_artifact(either)


def test_every_truncation_is_found(either: Path) -> None:
    for length in range(either.stat().st_size - 1, -1, -1):
        os.truncate(either, length)
        assert "truncated" in refusal(either)


def test_random_mutations_are_found(either: Path) -> None:
    whole = either.read_bytes()
    numbers = random.Random(0)
    for _ in range(500):
        data = bytearray(whole)
        for _ in range(numbers.randint(1, 4)):
            start = numbers.randrange(len(data))
            size = numbers.randint(1, 200)
            match numbers.randrange(5):
                case 0:
                    data[start : start + size] = numbers.randbytes(size)
                case 1:
                    del data[start : start + size]
                case 2:
                    data[start:start] = numbers.randbytes(size)
                case 3:
                    data[start : start + size] = bytes(len(data[start : start + size]))
                case 4:
                    other = numbers.randrange(len(data))
                    data[start : start + size] = data[other : other + size]
        if data != whole:
            either.write_bytes(data)
            refusal(either)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated: 0 bytes, the header alone takes 64"),
        (b"\x7fELF" + bytes(100), "is not a relay-layout artifact (bad magic)"),
        (container.MAGIC.replace(b"\r\n", b"\n") + bytes(100), "is not a relay-layout artifact (bad magic)"),
        (
            container.MAGIC + struct.pack("<I", 9) + bytes(100),
            "has format version 9, this relay-layout reads up to 8; upgrade relay-layout",
        ),
        (
            container.MAGIC + struct.pack("<I", 4) + bytes(100),
            "has format version 4, this relay-layout reads 8; compile the model again",
        ),
        (container.MAGIC + bytes(100), "damaged in section header: unknown format version 0"),
    ],
)
def test_foreign_files(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "model.rla"
    path.write_bytes(content)
    assert words in refusal(path)


def test_paths_that_are_not_files(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path}: is a directory, not a relay-layout artifact"
    missing = tmp_path / "missing.rla"
    assert refusal(missing) == f"{missing}: no such file"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a regular file" in refusal(pipe)
    with pytest.raises(ArtifactError, match=r"null (byte|character)"):
        read_artifact("a\0b")
    with pytest.raises(ArtifactError, match=r"^'line\\nend': no such file$"):
        read_artifact("line\nend")
