"""Manifests: with a valid checksum and wrong content, and to JSON and back."""

import copy
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artifact_harness import make_build, make_manifest, refusal

from relay_layout.artifact import Manifest, WeightEntry, read_artifact
from relay_layout.errors import ArtifactError


def signed(whole: bytes, manifest: bytes) -> bytes:
    offset = struct.unpack_from("<Q", whole, 16)[0]
    fixed = whole[:16] + struct.pack("<QQ", offset, len(manifest))
    return fixed + hashlib.sha256(fixed + manifest).digest() + whole[64:offset] + manifest


def refusal_of(path: Path, edit: Callable[[dict[str, Any]], object]) -> str:
    """Why an artifact is refused once its manifest is edited."""
    document = read_artifact(path).manifest.to_json()
    edit(document)
    path.write_bytes(signed(path.read_bytes(), json.dumps(document).encode()))
    return refusal(path)


def paths_in(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, item in items:
        yield from paths_in(item, (*path, key))


def changed(document: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    result = copy.deepcopy(document)
    node = result
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return result


def is_free(path: tuple[Any, ...]) -> bool:
    """Within what a build may say as it likes."""
    return path[:1] == ("builds",) and len(path) > 3 and path[2] in ("report", "target")


def test_every_field_is_checked(small: Path) -> None:
    whole = small.read_bytes()
    document = read_artifact(small).manifest.to_json()
    for path in paths_in(document):
        for value in ({"a": [1]}, [[2**63]], 1.5, -1, True, "", None, 2**48 + 1):
            small.write_bytes(signed(whole, json.dumps(changed(document, path, value)).encode()))
            permitted = (
                is_free(path)
                or path[2:] == ("num_threads_hint",)
                or (path[-1:] == ("layout",) and value == "")
                or (path[-1:] == ("declared",) and value is True)
                or (path[-1:] == ("quantization",) and value is None)
                or path[2:] == ("report",)
            )
            if not permitted:
                assert "damaged in section" in refusal(small), (path, value)
            else:
                try:
                    read_artifact(small)
                except ArtifactError as error:
                    assert "damaged in section manifest" in str(error)


def test_missing_and_unknown_fields(small: Path) -> None:
    whole = small.read_bytes()
    document = read_artifact(small).manifest.to_json()
    for path in paths_in(document):
        if path and isinstance(path[-1], str) and not is_free(path):
            lacking = copy.deepcopy(document)
            node = lacking
            for key in path[:-1]:
                node = node[key]
            del node[path[-1]]
            small.write_bytes(signed(whole, json.dumps(lacking).encode()))
            assert f"the field {path[-1]!r} is missing" in refusal(small)
    small.write_bytes(signed(whole, json.dumps({**document, "extra": 1}).encode()))
    assert "manifest: unknown field 'extra'" in refusal(small)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d["sections"].reverse(), "its sections are not library wide, weights"),
        (lambda d: d["sections"].pop(), "its sections are not library wide, weights"),
        (lambda d: d["sections"].append(d["sections"][0]), "sections: 'library wide' appears twice"),
        (lambda d: d["sections"][0].update(offset=0), "section library wide: 101 bytes at 0 of"),
        (lambda d: d["sections"][0].update(offset=128), "section library wide: 101 bytes at 128 of"),
        (lambda d: d["sections"][0].update(size=2**40), "section library wide"),
        (lambda d: d["sections"][0].update(size=5000), "section library wide"),
        (lambda d: d["sections"][1].update(offset=64), "section weights"),
        (lambda d: d["sections"][1].update(size=2**48), "section weights"),
        (lambda d: d["sections"][1].update(size=0), "section manifest: begins at byte"),
        (lambda d: d["sections"][1].update(sha256="0" * 64), "section weights: checksum mismatch"),
        (lambda d: d["sections"][1].update(sha256="0" * 63), "sections[1].sha256: expected 64 digits"),
        (lambda d: d["builds"][0]["weights"][1].update(offset=0), "section weights: 'b' lies at 0"),
        (lambda d: d["builds"][0]["weights"][1].update(offset=2**40), "section weights: 'b' lies at"),
        (lambda d: d["builds"][0]["weights"].pop(), "section weights: 76 bytes, its arrays take 7"),
        (
            lambda d: d["builds"][0]["weights"][1].update(shape=[4]),
            "builds[0].weights[1].nbytes: 12 does not match float32 [4]",
        ),
        (
            lambda d: d["builds"][0]["weights"][1].update(shape=[4], nbytes=16),
            "section weights: 76 bytes, its arrays take 80",
        ),
        (
            lambda d: d["builds"][0]["weights"][1].update(dtype="object"),
            "builds[0].weights[1].dtype: 'object' is not a dtype",
        ),
        (lambda d: d["builds"][0]["weights"][1].update(shape=[0, 2**40, 2**40], nbytes=0), "is too large"),
        (
            lambda d: d["builds"][0]["weights"][1].update(shape=[1] * 33),
            "builds[0].weights[1].shape: 33 dimensions are more than 32",
        ),
        (lambda d: d["builds"][0]["weights"][1].update(name="w"), "builds[0].weights: 'w' appears twice"),
        (lambda d: d["inputs"].append(d["inputs"][0]), "inputs: 'input' appears twice"),
        (lambda d: d["inputs"][0].update(dim_order=[0, 1, 1, 2]), "inputs[0].dim_order: does not order"),
        (lambda d: d["inputs"][0].update(shape=[1, -3]), "inputs[0].shape[1]: -3 is not within 0 and"),
        (
            lambda d: d["builds"][0]["target"].update(features=["+avx2"]),
            "builds[0].target.features[0]: '+avx2' is not the name",
        ),
        (lambda d: d["builds"][0]["target"].pop("mtriple"), "builds[0].target: says no mtriple"),
        (
            lambda d: d["builds"][0].update(num_threads_hint=0),
            "builds[0].num_threads_hint: 0 is not within 1 and",
        ),
        (lambda d: d["producer"].update(tvm="x" * 5000), "producer.tvm: longer than 4096 characters"),
        (
            lambda d: d["builds"][0].update(report=[1]),
            "builds[0].report: expected an object, got a value of type list",
        ),
        (lambda d: d["builds"][0].update(name=""), "builds[0].name: must not be empty"),
        (lambda d: d["builds"][0].update(name="x"), "its sections are not library x, weights"),
        (lambda d: d.update(builds=[]), "builds: must not be empty"),
    ],
)
def test_wrong_tables(small: Path, edit: Any, words: str) -> None:
    assert words in refusal_of(small, edit)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (lambda d: d["builds"].reverse(), "its sections are not library wide, library narrow, weights"),
        (lambda d: d["builds"].pop(), "its sections are not library narrow, weights"),
        (lambda d: d["builds"].append(d["builds"][0]), "builds: 'narrow' appears twice"),
        (lambda d: d["sections"][1].update(offset=64), "section library wide: 101 bytes at 64 of"),
        (lambda d: d["sections"][1].update(offset=4096), "section library wide: 101 bytes at 4096 of"),
        (
            lambda d: d["sections"][1].update(size=2**40),
            "section library wide: 1099511627776 bytes at 192 of",
        ),
        (lambda d: d["sections"][1].update(sha256="0" * 64), "section library wide: checksum mismatch"),
        (lambda d: d["sections"][0].update(sha256="0" * 64), "section library narrow: checksum mismatch"),
        (lambda d: d["builds"][1]["weights"][0].update(offset=64), "section weights: 'w' lies at 64"),
        (lambda d: d["builds"][1]["weights"][1].update(offset=65), "section weights: 'b' lies at 65"),
        (
            lambda d: d["builds"][1]["weights"][1].update(shape=[2], nbytes=8),
            "section weights: 'b' lies at 64, not after its neighbour",
        ),
        (lambda d: d["builds"][1]["weights"].pop(0), "section weights: 137 bytes, its arrays take 76"),
        (
            lambda d: d["builds"][1]["weights"][0].update(offset=0, shape=[7], nbytes=7),
            "section weights: 137 bytes, its arrays take 76",
        ),
    ],
)
def test_wrong_tables_of_several_builds(double: Path, edit: Any, words: str) -> None:
    assert words in refusal_of(double, edit)


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (b"[" * 100_000 + b"]" * 100_000, "JSON"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "JSON nested deeper than 64 levels"),
        (b'{"a":1,"a":2}', "'a' appears twice"),
        (b'{"a":NaN}', "JSON cannot carry the number NaN"),
        (b'{"a":-Infinity}', "JSON cannot carry the number -Infinity"),
        (b'{"a":1e999}', "does not fit a 64-bit float"),
        (b'{"a":' + b"9" * 5000 + b"}", "JSON integer does not fit 64 bits"),
        (b'{"a":18446744073709551616}', "JSON integer does not fit 64 bits"),
        (b'{"a":"\\ud800"}', "lone surrogate"),
        (b'{"a":"\xff"}', "not valid JSON"),
        (b'{"a":1,}', "not valid JSON"),
        (b"", "not valid JSON"),
    ],
)
def test_wrong_json(small: Path, report: bytes, words: str) -> None:
    whole = small.read_bytes()
    manifest = read_artifact(small).manifest.to_json()
    document = json.dumps(changed(manifest, ("builds", 0, "report"), 0)).encode()
    small.write_bytes(signed(whole, document.replace(b'"report": 0', b'"report": ' + report)))
    message = refusal(small)
    assert "damaged in section manifest" in message and words in message


def test_reports_that_json_cannot_carry() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    reports = [
        {"a": np.float32(1)},
        {1: 2},
        {"a": float("nan")},
        {"a": 2**64},
        {"a": "\ud800"},
        {"a": {1}},
        loop,
    ]
    for report in reports:
        with pytest.raises(ArtifactError, match=r"^report: JSON"):
            make_build(report=report)


def test_times_are_among_what_is_reported() -> None:
    times = {"solver": {"seconds": 0.5}, "compile_seconds": 1.25}
    report = make_manifest(
        builds=(make_build(report={"ops": 2, "solver": {"status": "optimal"}}, times=times),)
    ).report
    assert report["solver"] == {"status": "optimal", "seconds": 0.5}
    assert (report["ops"], report["compile_seconds"]) == (2, 1.25)


def test_times_of_several_targets_are_summed() -> None:
    builds = [make_build(name=name, times={"compile_seconds": 1.25}) for name in ("narrow", "wide")]
    report = make_manifest(builds=tuple(builds)).report
    assert report["compile_seconds"] == 2.5
    assert [target["compile_seconds"] for target in report["targets"]] == [1.25, 1.25]


def test_times_are_not_written() -> None:
    timed = make_manifest(builds=(make_build(times={"compile_seconds": 1.25}),))
    assert timed.encode() == make_manifest(builds=(make_build(),)).encode()
    assert Manifest.decode(timed.encode()).builds[0].times == {}


def test_manifest_json_round_trip() -> None:
    entry = WeightEntry("w", "float16", (2, 3), 64, 12)
    manifest = make_manifest(builds=(make_build(weights=(entry,)), make_build(name="narrow")))
    assert Manifest.decode(manifest.encode()) == manifest
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    with pytest.raises(ArtifactError, match=r"inputs\[0\]: expected a TensorSpec"):
        make_manifest(inputs=({"name": "x"},))
