"""The file format once more, from docs/artifact.md alone: neither reads nor writes through the package."""

import hashlib
import json
import struct
from typing import Any

import numpy as np

MAGIC = bytes.fromhex("89524c410d0a1a0a")


def write(
    builds: list[dict[str, Any]], libraries: list[bytes], weights: list[dict[str, np.ndarray]], **rest: Any
) -> bytes:
    """A file of these builds, whose weights are told apart by content."""
    data = bytearray(64)
    sections = []
    for build, library in zip(builds, libraries, strict=True):
        data += bytes(-len(data) % 64)
        sections.append(section(f"library {build['name']}", len(data), library))
        data += library
    data += bytes(-len(data) % 4096)
    start, held, places = len(data), bytearray(), {}
    for build, arrays in zip(builds, weights, strict=True):
        build["weights"] = []
        for name, array in arrays.items():
            content = np.ascontiguousarray(array).tobytes()
            key = (content, str(array.dtype), array.shape)
            if key not in places:
                held += bytes(-len(held) % 64)
                places[key] = len(held)
                held += content
            build["weights"].append(
                {
                    "name": name,
                    "dtype": str(array.dtype),
                    "shape": list(array.shape),
                    "offset": places[key],
                    "nbytes": len(content),
                }
            )
    sections.append(section("weights", start, bytes(held)))
    data += held
    data += bytes(-len(data) % 64)
    manifest = json.dumps({**rest, "builds": builds, "sections": sections}).encode()
    head = MAGIC + struct.pack("<IIQQ", 8, 0, len(data), len(manifest))
    data[:64] = head + hashlib.sha256(head + manifest).digest()
    return bytes(data + manifest)


def section(name: str, offset: int, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    return {"name": name, "offset": offset, "size": len(content), "sha256": digest}


def read(data: bytes) -> tuple[dict[str, Any], dict[str, bytes], list[dict[str, np.ndarray]]]:
    """The manifest, the sections by name, and the arrays of each build; asserts what the page says."""
    assert data[:8] == MAGIC
    version, flags, offset, size = struct.unpack_from("<IIQQ", data, 8)
    assert (version, flags, offset + size) == (8, 0, len(data))
    assert data[32:64] == hashlib.sha256(data[:32] + data[offset:]).digest()
    manifest = json.loads(data[offset:])
    contents, position = {}, 64
    for entry in manifest["sections"]:
        position += -position % (4096 if entry["name"] == "weights" else 64)
        assert entry["offset"] == position
        contents[entry["name"]] = data[position : position + entry["size"]]
        assert hashlib.sha256(contents[entry["name"]]).hexdigest() == entry["sha256"]
        position += entry["size"]
    assert offset == position + -position % 64
    arrays = [
        {
            entry["name"]: np.frombuffer(
                contents["weights"],
                entry["dtype"],
                count=entry["nbytes"] // np.dtype(entry["dtype"]).itemsize,
                offset=entry["offset"],
            ).reshape(entry["shape"])
            for entry in build["weights"]
        }
        for build in manifest["builds"]
    ]
    return manifest, contents, arrays
