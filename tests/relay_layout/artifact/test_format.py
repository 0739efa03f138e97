"""The format as docs/artifact.md has it, written and read by code that shares nothing with the package."""

import random
import struct
from pathlib import Path

import numpy as np
import plain_format
import pytest
from artifact_harness import LIBRARY, make_build, make_manifest, make_weights, write

from relay_layout.artifact import Quantization, TensorSpec, read_artifact
from relay_layout.errors import ArtifactError

SPECS = (
    TensorSpec(
        "image",
        ("n", 3, 8, "w"),
        "uint8",
        "NHWC",
        (0, 2, 3, 1),
        True,
        Quantization((0.5,), (128,)),
        {"n": (1, 64)},
    ),
    TensorSpec("mask", (4, 2), "int8", "", (0, 1), False, Quantization((0.5, 0.25), (0, -3), 1)),
)


def test_what_the_package_writes_another_reads(tmp_path: Path) -> None:
    path = tmp_path / "model.rla"
    arrays = {name: array for name, array in make_weights().items() if array.dtype.isnative}
    write(path, make_manifest(inputs=SPECS), LIBRARY, arrays)
    manifest, contents, (found,) = plain_format.read(path.read_bytes())
    assert contents["library wide"] == LIBRARY
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert manifest["inputs"] == [
        {
            "name": "image",
            "shape": ["n", 3, 8, "w"],
            "dtype": "uint8",
            "layout": "NHWC",
            "dim_order": [0, 2, 3, 1],
            "declared": True,
            "quantization": {"scales": [0.5], "zero_points": [128], "axis": None},
            "bounds": {"n": [1, 64]},
        },
        {
            "name": "mask",
            "shape": [4, 2],
            "dtype": "int8",
            "layout": "",
            "dim_order": [0, 1],
            "declared": False,
            "quantization": {"scales": [0.5, 0.25], "zero_points": [0, -3], "axis": 1},
            "bounds": {},
        },
    ]


def test_what_another_writes_the_package_reads(tmp_path: Path) -> None:
    path = tmp_path / "model.rla"
    shared = np.arange(6, dtype="float32").reshape(2, 3)
    weights = [{"a": shared, "b": np.arange(5, dtype="int8")}, {"c": shared, "d": np.ones(1)}]
    builds = [
        {"name": name, "target": make_build().target, "num_threads_hint": None, "report": {}}
        for name in ("narrow", "wide")
    ]
    path.write_bytes(
        plain_format.write(
            builds,
            [LIBRARY, LIBRARY[::-1]],
            weights,
            producer={"relay_layout": "1", "tvm": "2"},
            inputs=[spec.to_json() for spec in SPECS],
            outputs=[],
            conditions=["mask.shape[0] > 3"],
        )
    )
    artifact = read_artifact(path)
    assert artifact.manifest.inputs == SPECS
    assert [condition.text for condition in artifact.manifest.conditions] == ["mask.shape[0] > 3"]
    assert [bytes(content.library) for content in artifact.contents] == [LIBRARY, LIBRARY[::-1]]
    for content, arrays in zip(artifact.contents, weights, strict=True):
        for name, array in arrays.items():
            np.testing.assert_array_equal(content.weights[name], array)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scales": []}, "scales: 0 of them are not within 1 and 1048576"),
        ({"scales": [0.0, 1.0]}, "scales[0]: must be above 0"),
        ({"zero_points": [1]}, "zero_points: 1 for 2 scales"),
        ({"zero_points": [1, 2**40]}, "zero_points[1]: 1099511627776 is not within"),
        ({"axis": None}, "axis: 2 scales need one"),
        ({"axis": 2}, "quantization.axis: 2 is not a dimension of a tensor of 2"),
        ({"axis": 0}, "quantization.scales: 2 for 4 channels"),
    ],
)
def test_quantization_is_checked(change: dict[str, object], words: str) -> None:
    data = SPECS[1].to_json()
    data["quantization"] = {**data["quantization"], **change}
    with pytest.raises(ArtifactError) as raised:
        TensorSpec.from_json(data)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"h": [1, 2]}, "bounds: shape [n, 3, 8, w] has no dimension 'h'"),
        ({"n": [1]}, "bounds.n: expected two sizes, got 1"),
        ({"n": [-1, 2]}, "bounds.n[0]: -1 is not within 0 and"),
        ({"n": [3, 2]}, "bounds.n[1]: 2 is not within 3 and"),
    ],
)
def test_bounds_are_checked(bounds: dict[str, list[int]], words: str) -> None:
    with pytest.raises(ArtifactError) as raised:
        TensorSpec.from_json(SPECS[0].to_json() | {"bounds": bounds})
    assert words in str(raised.value)


def mutated(whole: bytes, numbers: random.Random) -> bytes:
    """The file with one to three changes: bits, cuts, sizes and offsets, swapped sections, doubled parts."""
    data = bytearray(whole)
    manifest = struct.unpack_from("<Q", whole, 16)[0]
    for _ in range(numbers.randint(1, 3)):
        start = numbers.randrange(len(data))
        size = numbers.choice((1, 4, 8, 64, 4096))
        match numbers.randrange(7):
            case 0:
                data[start] ^= 1 << numbers.randrange(8)
            case 1:
                del data[numbers.randrange(1, len(data) + 1) :]
            case 2:
                field = numbers.choice((8, 12, 16, 24))
                value = numbers.choice((0, 1, 2**31, 2**32 - 1, 2**63, len(data), numbers.randrange(2**40)))
                width = "<I" if field < 16 else "<Q"
                held = value % 2 ** (32 if field < 16 else 64)
                if len(data) > 32:
                    struct.pack_into(width, data, field, held)
            case 3:
                other = numbers.randrange(len(data))
                data[start : start + size], data[other : other + size] = (
                    data[other : other + size],
                    data[start : start + size],
                )
            case 4:
                digits = [
                    place
                    for place in range(min(manifest, len(data)), len(data))
                    if chr(data[place]).isdigit()
                ]
                if digits:
                    data[numbers.choice(digits)] = ord(numbers.choice("0123456789"))
            case 5:
                data[start:start] = data[start : start + size]
            case 6:
                del data[start : start + size]
        if not data:
            break
    return bytes(data)


def check_mutations(path: Path, folder: Path, count: int, seed: int) -> None:
    """A file that is not the one it was made from is refused with one line, or runs what was written."""
    whole = path.read_bytes()
    numbers = random.Random(seed)
    victim = folder / "mutated.rla"
    for trial in range(count):
        data = mutated(whole, numbers)
        if trial % 2 and len(data) > 64:
            # With a right checksum of header and manifest, everything behind it is to be found out.
            offset = min(struct.unpack_from("<Q", data, 16)[0], len(data))
            data = data[:32] + plain_format.hashlib.sha256(data[:32] + data[offset:]).digest() + data[64:]
        if data == whole:
            continue
        victim.write_bytes(data)
        try:
            artifact = read_artifact(victim)
        except ArtifactError as error:
            assert "\n" not in str(error), f"seed {seed}, trial {trial}"
        else:
            # The change was within what a build says of itself: what runs is what was written.
            found = [bytes(content.library) for content in artifact.contents]
            assert found == [bytes(content.library) for content in read_artifact(path).contents], trial
            for content, kept in zip(artifact.contents, read_artifact(path).contents, strict=True):
                for name, array in zip(content.weights, kept.weights.values(), strict=True):
                    np.testing.assert_array_equal(content.weights[name].view("uint8"), array.view("uint8"))


@pytest.mark.parametrize("which", ["small", "double"])
def test_mutated_files(which: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    check_mutations(request.getfixturevalue(which), tmp_path, 500, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("which", ["small", "double"])
def test_many_mutated_files(which: str, seed: int, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    check_mutations(request.getfixturevalue(which), tmp_path, 1000, 100 + seed)
