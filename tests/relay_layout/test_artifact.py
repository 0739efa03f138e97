"""Artifacts: what is written comes back, and nothing damaged, foreign or ill-fitting gets through."""

import ast
import copy
import hashlib
import json
import os
import random
import stat
import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout.artifact
from relay_layout import host
from relay_layout.artifact import (
    Manifest,
    Producer,
    TensorSpec,
    WeightEntry,
    check_inputs,
    check_runnable,
    container,
    host_features,
    read_artifact,
    write_artifact,
)
from relay_layout.errors import ArtifactError, InputError

Array = np.ndarray[Any, np.dtype[Any]]
DTYPES = (
    "float32",
    "float16",
    "float64",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "int64",
    "uint64",
    "bool",
)
INPUT = TensorSpec("input", (1, 3, 224, 224), "float32", "NCHW", (0, 1, 2, 3))
LIBRARY = b"\x7fELF" + bytes(range(97))


def make_manifest(**changes: Any) -> Manifest:
    standard: dict[str, Any] = {
        "producer": Producer("0.1.0", "0.27.0"),
        "target": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "", "features": []},
        "inputs": (INPUT,),
        "outputs": (TensorSpec("output", ("n", 1000), "float32"),),
        "num_threads_hint": 2,
        "report": {"kernels": [{"name": "conv2d", "us": 12.5, "tuned": True, "record": None}]},
    }
    return Manifest(**{**standard, **changes})


def make_weights() -> dict[str, Array]:
    numbers = np.random.default_rng(0)
    arrays: dict[str, Array] = {
        dtype: numbers.integers(0, 2, (3, 5)).astype(dtype) * numbers.integers(1, 100, (3, 5)).astype(dtype)
        for dtype in DTYPES
    }
    arrays["scalar"] = np.array(2.5, "float32")
    arrays["empty"] = np.zeros((4, 0, 2), "int8")
    arrays["strided"] = np.arange(24, dtype="float32").reshape(4, 6)[::2, ::-3]
    arrays["big endian"] = np.arange(5, dtype=">i4")
    arrays["empty at the end"] = np.zeros((0,), "float32")
    return arrays


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "model.rla"
    write_artifact(
        path, make_manifest(), LIBRARY, {"w": np.arange(7, dtype="int8"), "b": np.ones(3, "float32")}
    )
    return path


def refusal(path: Path, *, verify: bool = True) -> str:
    with pytest.raises(ArtifactError) as caught:
        read_artifact(path, verify=verify)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and message.count("\n") == 0
    return message


# Round trip


def test_round_trip(tmp_path: Path) -> None:
    path, manifest, weights = tmp_path / "model.rla", make_manifest(), make_weights()
    write_artifact(path, manifest, LIBRARY, weights)
    for verify in (True, False):
        loaded = read_artifact(path, verify=verify)
        assert loaded.path == str(path)
        assert bytes(loaded.library) == LIBRARY and loaded.library.readonly
        assert replace(loaded.manifest, sections=(), weights=()) == manifest
        assert [section.name for section in loaded.manifest.sections] == ["library", "weights"]
        assert list(loaded.weights) == list(weights)
        for name, array in weights.items():
            view = loaded.weights[name]
            assert view.dtype == array.dtype.newbyteorder("<") and view.shape == array.shape
            np.testing.assert_array_equal(view, array)


def test_views_are_aligned_read_only_and_share_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "model.rla"
    write_artifact(path, make_manifest(), LIBRARY, make_weights())
    loaded = read_artifact(path)
    assert loaded.manifest.sections[1].offset % 4096 == 0
    for view in loaded.weights.values():
        assert view.ctypes.data % 64 == 0
        assert not view.flags.writeable and not view.flags.owndata and view.flags.c_contiguous
    np.testing.assert_array_equal(loaded.weights["int8"], make_weights()["int8"])


def test_views_outlive_the_artifact_and_the_file(small: Path) -> None:
    view = read_artifact(small).weights["w"]
    small.unlink()
    np.testing.assert_array_equal(view, np.arange(7))


def test_views_can_go_to_dlpack_without_a_copy(small: Path) -> None:
    before = small.read_bytes()
    view = read_artifact(small).weights["w"]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 99
    view.flags.writeable = True
    assert np.from_dlpack(view).ctypes.data == view.ctypes.data
    view[0] = 99
    assert small.read_bytes() == before


def test_no_weights(tmp_path: Path) -> None:
    write_artifact(tmp_path / "m", make_manifest(inputs=(), outputs=(), num_threads_hint=None), LIBRARY, {})
    assert read_artifact(tmp_path / "m").weights == {}


def test_writing_is_deterministic_and_replaces(small: Path) -> None:
    opened = read_artifact(small)
    before = small.read_bytes()
    write_artifact(small, opened.manifest, opened.library, opened.weights)
    assert small.read_bytes() == before
    write_artifact(small, make_manifest(report={}), LIBRARY, {"w": np.zeros(7, "int8")})
    np.testing.assert_array_equal(opened.weights["w"], np.arange(7))
    assert not read_artifact(small).weights["w"].any()
    assert os.listdir(small.parent) == ["model.rla"]


def test_written_through_a_link_with_usual_permissions(small: Path) -> None:
    link = small.parent / "link"
    link.symlink_to(small)
    write_artifact(link, make_manifest(), LIBRARY, {})
    assert link.is_symlink() and read_artifact(small).weights == {}
    plain = small.parent / "plain"
    plain.touch()
    assert stat.S_IMODE(small.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_large_arrays_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_CHUNK", 1000)
    array = np.random.default_rng(0).standard_normal((123, 45)).astype("float32")
    write_artifact(tmp_path / "m", make_manifest(), LIBRARY * 50, {"w": array})
    loaded = read_artifact(tmp_path / "m")
    np.testing.assert_array_equal(loaded.weights["w"], array)
    assert bytes(loaded.library) == LIBRARY * 50


def test_needs_no_tvm() -> None:
    sources = [Path(host.__file__), *Path(relay_layout.artifact.__file__).parent.glob("*.py")]
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "tvm" for name in names), source


# Damage


def test_every_flipped_byte_is_found(small: Path) -> None:
    whole = small.read_bytes()
    manifest_offset = struct.unpack_from("<Q", whole, 16)[0]
    sections = {section.name: section for section in read_artifact(small).manifest.sections}
    with open(small, "r+b", buffering=0) as file:
        for position, byte in enumerate(whole):
            for mask in (0xFF, 1 << position % 8):
                os.pwrite(file.fileno(), bytes([byte ^ mask]), position)
                message = refusal(small)
            os.pwrite(file.fileno(), whole[position : position + 1], position)
            for name, section in sections.items():
                if section.offset <= position < section.offset + section.size:
                    assert f"damaged in section {name}: checksum mismatch" in message
            if position >= manifest_offset:
                assert "damaged in section manifest: checksum mismatch" in message
    read_artifact(small)


def test_every_truncation_is_found(small: Path) -> None:
    for length in range(small.stat().st_size - 1, -1, -1):
        os.truncate(small, length)
        for verify in (True, False):
            message = refusal(small, verify=verify)
            assert "truncated" in message


def test_random_mutations_are_found(small: Path) -> None:
    whole = small.read_bytes()
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
            small.write_bytes(data)
            refusal(small)


def test_without_verification_only_contents_go_unread(small: Path) -> None:
    whole = small.read_bytes()
    weights = read_artifact(small).manifest.sections[1]
    damaged = bytearray(whole)
    damaged[weights.offset] ^= 1
    small.write_bytes(damaged)
    assert read_artifact(small, verify=False).weights["w"][0] == 1
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    small.write_bytes(damaged)
    assert "damaged in section manifest" in refusal(small, verify=False)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated: 0 bytes, the header alone takes 64"),
        (b"\x7fELF" + bytes(100), "is not a relay-layout artifact (bad magic)"),
        (container.MAGIC.replace(b"\r\n", b"\n") + bytes(100), "is not a relay-layout artifact (bad magic)"),
        (
            container.MAGIC + struct.pack("<I", 2) + bytes(100),
            "has format version 2, this relay-layout reads up to 1; upgrade relay-layout",
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
    assert refusal(missing) == f"{missing}: cannot be read: No such file or directory"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "is not a regular file" in refusal(pipe)
    with pytest.raises(ArtifactError, match="null byte"):
        read_artifact("a\0b")
    with pytest.raises(ArtifactError, match=r"^'line\\nend': cannot be read: "):
        read_artifact("line\nend")


# Manifests with a valid checksum and wrong content


def signed(whole: bytes, manifest: bytes) -> bytes:
    offset = struct.unpack_from("<Q", whole, 16)[0]
    fixed = whole[:16] + struct.pack("<QQ", offset, len(manifest))
    return fixed + hashlib.sha256(fixed + manifest).digest() + whole[64:offset] + manifest


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


def test_every_field_is_checked(small: Path) -> None:
    whole = small.read_bytes()
    document = read_artifact(small).manifest.to_json()
    free = ("report", "target")
    for path in paths_in(document):
        for value in ({"a": [1]}, [[2**63]], 1.5, -1, True, "", None, 2**48 + 1):
            small.write_bytes(signed(whole, json.dumps(changed(document, path, value)).encode()))
            permitted = (
                (len(path) > 1 and path[0] in free)
                or path == ("num_threads_hint",)
                or (path[-1:] == ("layout",) and value == "")
                or path == ("report",)
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
        if path and isinstance(path[-1], str) and path[0] not in ("report", "target"):
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
        (lambda d: d["sections"].reverse(), "its sections are not library and weights"),
        (lambda d: d["sections"].pop(), "its sections are not library and weights"),
        (lambda d: d["sections"].append(d["sections"][0]), "sections: 'library' appears twice"),
        (lambda d: d["sections"][0].update(offset=0), "section library: 101 bytes at 0 of"),
        (lambda d: d["sections"][0].update(offset=128), "section library: 101 bytes at 128 of"),
        (lambda d: d["sections"][0].update(size=2**40), "section library"),
        (lambda d: d["sections"][0].update(size=5000), "section library"),
        (lambda d: d["sections"][1].update(offset=64), "section weights"),
        (lambda d: d["sections"][1].update(size=2**48), "section weights"),
        (lambda d: d["sections"][1].update(size=0), "section manifest: begins at byte"),
        (lambda d: d["sections"][1].update(sha256="0" * 64), "section weights: checksum mismatch"),
        (lambda d: d["sections"][1].update(sha256="0" * 63), "sections[1].sha256: expected 64 digits"),
        (lambda d: d["weights"][1].update(offset=0), "section weights: 'b' lies at 0"),
        (lambda d: d["weights"][1].update(offset=2**40), "section weights: 'b' lies at"),
        (lambda d: d["weights"].pop(), "section weights: 76 bytes, its arrays take 7"),
        (lambda d: d["weights"][1].update(shape=[4]), "weights[1].nbytes: 12 does not match float32 [4]"),
        (
            lambda d: d["weights"][1].update(shape=[4], nbytes=16),
            "section weights: 76 bytes, its arrays take 80",
        ),
        (lambda d: d["weights"][1].update(dtype="object"), "weights[1].dtype: 'object' is not a dtype"),
        (lambda d: d["weights"][1].update(shape=[0, 2**40, 2**40], nbytes=0), "is too large"),
        (
            lambda d: d["weights"][1].update(shape=[1] * 33),
            "weights[1].shape: 33 dimensions are more than 32",
        ),
        (lambda d: d["weights"][1].update(name="w"), "weights: 'w' appears twice"),
        (lambda d: d["inputs"].append(d["inputs"][0]), "inputs: 'input' appears twice"),
        (lambda d: d["inputs"][0].update(dim_order=[0, 1, 1, 2]), "inputs[0].dim_order: does not order"),
        (lambda d: d["inputs"][0].update(shape=[1, -3]), "inputs[0].shape[1]: -3 is not within 0 and"),
        (lambda d: d["target"].update(features=["+avx2"]), "target.features[0]: '+avx2' is not the name"),
        (lambda d: d["target"].pop("mtriple"), "target: says no mtriple"),
        (lambda d: d.update(num_threads_hint=0), "num_threads_hint: 0 is not within 1 and"),
        (lambda d: d["producer"].update(tvm="x" * 5000), "producer.tvm: longer than 4096 characters"),
        (lambda d: d.update(report=[1]), "report: expected an object, got a value of type list"),
    ],
)
def test_wrong_tables(small: Path, edit: Any, words: str) -> None:
    whole = small.read_bytes()
    document = read_artifact(small).manifest.to_json()
    edit(document)
    small.write_bytes(signed(whole, json.dumps(document).encode()))
    assert words in refusal(small)


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
    document = json.dumps({**read_artifact(small).manifest.to_json(), "report": 0}).encode()
    small.write_bytes(signed(whole, document.replace(b'"report": 0', b'"report": ' + report)))
    message = refusal(small)
    assert "damaged in section manifest" in message and words in message


# Writing that fails


class Exploding(Mapping[str, Array]):
    """Weights of which the second cannot be had when it is to be written."""

    def __init__(self, error: BaseException) -> None:
        self.arrays: dict[str, Array] = {"a": np.zeros(100_000, "int8"), "b": np.ones(3, "int8")}
        self.error = error
        self.seen = 0

    def __getitem__(self, name: str) -> Array:
        self.seen += 1
        if self.seen > 3:
            raise self.error
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RuntimeError("x"), SystemExit()])
@pytest.mark.parametrize("existing", [False, True])
def test_failure_leaves_nothing_behind(tmp_path: Path, error: BaseException, existing: bool) -> None:
    path = tmp_path / "model.rla"
    if existing:
        path.write_bytes(b"old")
    with pytest.raises(type(error)):
        write_artifact(path, make_manifest(), LIBRARY, Exploding(error))
    assert os.listdir(tmp_path) == (["model.rla"] if existing else [])
    assert not existing or path.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    path = tmp_path / "model.rla"
    with pytest.raises(ArtifactError) as caught:
        write_artifact(path, make_manifest(), LIBRARY, {})
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert os.listdir(tmp_path) == []


def test_interrupt_in_the_middle_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "_pad", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_artifact(tmp_path / "model.rla", make_manifest(), LIBRARY, {})
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    def fail(path: Path) -> str:
        with pytest.raises(ArtifactError) as caught:
            write_artifact(path, make_manifest(), LIBRARY, {})
        return str(caught.value)

    assert fail(tmp_path) == f"{tmp_path}: cannot be written: it is a directory"
    inside = tmp_path / "no" / "model.rla"
    assert fail(inside) == f"{inside}: cannot be written: the folder {tmp_path / 'no'} does not exist"
    assert fail(Path("/dev/null")) == "/dev/null: cannot be written: it is not a regular file"
    assert "cannot be written" in fail(Path("a\0b"))
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("library", "weights", "report", "words"),
    [
        (b"", {}, {}, "the library to be written is empty"),
        (b"x", {"w": np.zeros(2, "complex64")}, {}, "weight 'w': artifacts do not hold the dtype complex64"),
        (b"x", {"w": np.array([None])}, {}, "weight 'w': artifacts do not hold the dtype object"),
        (b"x", {"w": [1.0]}, {}, "weight 'w': expected a numpy array, got list"),
        (b"x", {"": np.zeros(2)}, {}, "weight '': name: must not be empty"),
        (b"x", {}, {"a": "x" * (65 << 20)}, "the manifest takes"),
    ],
)
def test_content_that_cannot_be_written(
    tmp_path: Path, library: bytes, weights: Any, report: Any, words: str
) -> None:
    with pytest.raises(ArtifactError) as caught:
        write_artifact(tmp_path / "m", make_manifest(report=report), library, weights)
    assert words in str(caught.value)
    assert os.listdir(tmp_path) == []


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
            make_manifest(report=report)


def test_manifest_json_round_trip() -> None:
    entry = WeightEntry("w", "float16", (2, 3), 64, 12)
    manifest = make_manifest(weights=(entry,))
    assert Manifest.decode(manifest.encode()) == manifest
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    with pytest.raises(ArtifactError, match=r"inputs\[0\]: expected a TensorSpec"):
        make_manifest(inputs=({"name": "x"},))


# Inputs


def refused(spec: TensorSpec, array: object, **options: str) -> str:
    with pytest.raises(InputError) as caught:
        spec.check(array, **options)
    return str(caught.value)


def test_spec_check_messages() -> None:
    INPUT.check(np.zeros((1, 3, 224, 224), "float32"))
    head = "input 'input': expected float32 [1, 3, 224, 224], got "
    assert refused(INPUT, np.zeros((1, 3, 224, 224))) == (
        head + "float64 [1, 3, 224, 224]; convert with .astype('float32')"
    )
    assert refused(INPUT, np.zeros((1, 224, 224, 3), "float32")) == (
        head + "float32 [1, 224, 224, 3]; convert with .transpose(0, 3, 1, 2)"
    )
    assert refused(INPUT, np.zeros((1, 224, 224, 3), "uint8")) == (
        head + "uint8 [1, 224, 224, 3]; convert with .transpose(0, 3, 1, 2).astype('float32')"
    )
    assert refused(INPUT, np.zeros((3, 224, 224), "float32")) == head + "float32 [3, 224, 224]"
    assert refused(INPUT, np.zeros((1, 3, 224, 225), "float32")) == head + "float32 [1, 3, 224, 225]"
    assert refused(INPUT, [1.0]) == head + "list; convert with numpy.asarray"
    assert refused(INPUT, np.zeros((1, 3, 224, 224), "complex64")) == head + "complex64 [1, 3, 224, 224]"
    assert refused(TensorSpec("y", (), "int32"), np.zeros(1, "int32"), role="output") == (
        "output 'y': expected int32 [], got int32 [1]"
    )
    symbolic = TensorSpec("x", (1, 3, "h", "w"), "float32")
    assert refused(symbolic, np.zeros((1, 5, 3, 3), "float32")).endswith("got float32 [1, 5, 3, 3]")


def test_suggested_conversions_work() -> None:
    nhwc = TensorSpec("x", (1, 4, 5, 3), "float32", "NHWC")
    array = np.zeros((1, 3, 4, 5))
    suggestion = refused(nhwc, array).split("convert with ")[1]
    nhwc.check(eval(f"array{suggestion}"))


def test_check_inputs_orders_and_copies_only_as_needed() -> None:
    specs = [
        TensorSpec("a", (2, 3), "float32"),
        TensorSpec("b", (), "int32"),
        TensorSpec("c", (0, 4), "bool"),
    ]
    fine = np.ones((2, 3), "float32")
    given = {"c": np.zeros((0, 4), bool), "b": np.array(7, ">i4"), "a": fine}
    result = check_inputs(specs, given)
    assert list(result) == ["a", "b", "c"]
    assert result["a"] is fine
    assert result["b"].shape == () and result["b"] == 7 and result["b"].dtype.isnative
    strided = np.arange(6, dtype="float32").reshape(3, 2).T
    result = check_inputs(specs, {**given, "a": strided})
    assert result["a"].flags.c_contiguous
    np.testing.assert_array_equal(result["a"], strided)
    assert check_inputs([], {}) == {}


def test_check_inputs_messages() -> None:
    specs = [TensorSpec("ids", ("n", 8), "int32"), TensorSpec("mask", ("n",), "bool")]
    ids, mask = np.zeros((2, 8), "int32"), np.zeros(2, bool)
    assert list(check_inputs(specs, {"mask": mask, "ids": ids})) == ["ids", "mask"]
    taken = "the model takes 'ids' (int32 [n, 8]), 'mask' (bool [n])"
    cases: list[tuple[dict[str, Array], str]] = [
        ({"ids": ids}, f"missing input 'mask'; {taken}"),
        ({}, f"missing inputs 'ids', 'mask'; {taken}"),
        ({"ids": ids, "mask": mask, "x": ids}, f"unexpected input 'x'; {taken}"),
        ({"ids": ids, "x": ids}, f"missing input 'mask' and unexpected input 'x'; {taken}"),
        (
            {"ids": ids, "mask": np.zeros(3, bool)},
            "input 'mask': dimension 0 ('n') is 3, but input 'ids' has n = 2",
        ),
    ]
    for arrays, message in cases:
        with pytest.raises(InputError) as caught:
            check_inputs(specs, arrays)
        assert str(caught.value) == message
    with pytest.raises(InputError, match="the model takes no inputs"):
        check_inputs([], {"x": ids})


def test_one_symbol_twice_in_one_shape() -> None:
    square = TensorSpec("x", ("n", "n"), "int8")
    check_inputs([square], {"x": np.zeros((3, 3), "int8")})
    with pytest.raises(InputError, match="dimension 1"):
        check_inputs([square], {"x": np.zeros((3, 4), "int8")})


# Machines


X86_V3 = "fpu lm avx avx2 bmi1 bmi2 f16c fma abm movbe xsave cx16 popcnt lahf_lm pni sse4_1 sse4_2 ssse3"


def cpuinfo(*flags: str, field: str = "flags\t\t") -> str:
    return "".join(f"processor\t: {index}\n{field}: {line}\n\n" for index, line in enumerate(flags))


@pytest.fixture
def x86_v3(monkeypatch: pytest.MonkeyPatch) -> None:
    features = host.parse_cpuinfo(cpuinfo(X86_V3), "x86_64")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "operating_system", lambda: "linux")
    monkeypatch.setattr(host, "cpu_features", lambda: features)


def unrunnable(**target: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        check_runnable({"kind": "llvm", **target}, name="model.rla")
    return str(caught.value)


@pytest.mark.usefixtures("x86_v3")
def test_check_runnable() -> None:
    check_runnable({"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "features": ["avx2", "sse4.2"]})
    check_runnable({"kind": "llvm", "arch": "amd64"})
    check_runnable({"kind": "cuda", "arch": "sm_90", "mtriple": "x86_64-linux-gnu"})
    assert unrunnable(mtriple="aarch64-linux-gnu", mcpu="cortex-a76") == (
        "model.rla: built for aarch64 (cortex-a76), this machine is x86_64; "
        "compile it with --target native here"
    )
    assert unrunnable(mtriple="armv7l-linux-gnueabihf").startswith("model.rla: built for arm, this machine")
    assert unrunnable(mtriple="x86_64-apple-darwin21") == (
        "model.rla: built for darwin, this machine runs linux; compile it with --target native here"
    )
    assert unrunnable(arch="x86_64", features=["avx512vl", "avx2", "avx512f"]) == (
        "model.rla: needs CPU features avx512f, avx512vl which this machine lacks; "
        "recompile with --target x86-64-v3"
    )


def test_unknown_features_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "architecture", lambda: "aarch64")
    monkeypatch.setattr(host, "cpu_features", lambda: None)
    check_runnable({"kind": "llvm", "arch": "arm64", "features": ["sve2"]})
    assert host_features() == frozenset()
    monkeypatch.setattr(host, "cpu_features", lambda: frozenset({"neon"}))
    assert unrunnable(arch="arm64", features=["sve2"]) == (
        "model.rla: needs CPU feature sve2 which this machine lacks; recompile with --target native here"
    )


def test_this_machine() -> None:
    features = host.cpu_features()
    assert features is None or "avx2" not in features or "sse4.2" in features
    check_runnable({"kind": "llvm", "arch": host.architecture(), "features": sorted(host_features())})
    assert 1 <= host.cpu_count() <= len(os.sched_getaffinity(0))
    assert host.operating_system() == "linux"


def test_parse_cpuinfo() -> None:
    flags = host.parse_cpuinfo(
        cpuinfo("fpu avx512_vnni amx_int8 sse4_2 sha_ni", "fpu avx512_vnni sse4_2"), "x86_64"
    )
    assert flags is not None
    assert flags >= {"x87", "avx512_vnni", "avx512vnni", "sse4.2", "crc32"}
    assert not flags & {"amx_int8", "amx-int8", "sha"}
    words = {"fp", "asimd", "asimddp", "atomics", "sha1", "sha2", "i8mm"}
    arm = cpuinfo(" ".join(words), field="Features\t")
    expected = frozenset(words | {"fp-armv8", "neon", "dotprod", "lse"})
    assert host.parse_cpuinfo(arm, "aarch64") == expected
    assert host.parse_cpuinfo(cpuinfo(X86_V3), "aarch64") is None
    assert host.parse_cpuinfo(arm, "riscv64") is None
    assert host.parse_cpuinfo("", "x86_64") is None


def test_portable_target() -> None:
    v3 = host.parse_cpuinfo(cpuinfo(X86_V3), "x86_64")
    v4 = host.parse_cpuinfo(cpuinfo(f"{X86_V3} avx512f avx512bw avx512cd avx512dq avx512vl"), "x86_64")
    assert v3 is not None
    assert host.portable_target(v4) == "x86-64-v4"
    assert host.portable_target(v3) == "x86-64-v3"
    assert host.portable_target(v3 - {"avx2"}) == "x86-64-v2"
    assert host.portable_target(None) == host.portable_target(frozenset({"neon"})) == "native"


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("AMD64", "x86_64"),
        ("arm64", "aarch64"),
        ("aarch64_be", "aarch64_be"),
        ("armv8l", "arm"),
        ("i686", "x86"),
    ],
)
def test_normalize_architecture(name: str, normal: str) -> None:
    assert host.normalize_architecture(name) == normal


def test_cgroup_quota(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert host.cgroup_quota(tmp_path, "0::/a/b\n") is None
    put("a/b/cpu.max", "max 100000\n")
    assert host.cgroup_quota(tmp_path, "0::/a/b\n") is None
    put("a/cpu.max", "250000 100000\n")
    assert host.cgroup_quota(tmp_path, "0::/a/b\n") == 2.5
    assert host.cgroup_quota(tmp_path, "0::/../a\n") == 2.5
    put("cpu/cpu.cfs_quota_us", "-1\n")
    put("cpu/cpu.cfs_period_us", "100000\n")
    assert host.cgroup_quota(tmp_path, "3:cpuset:/\n2:cpu,cpuacct:/pod\n") is None
    put("cpu/cpu.cfs_quota_us", "150000\n")
    assert host.cgroup_quota(tmp_path, "3:cpuset:/\n2:cpu,cpuacct:/pod\n") == 1.5
    put("a/cpu.max", "nonsense\n")
    assert host.cgroup_quota(tmp_path, "garbage\n0::/a\n") is None


def test_cpu_count_obeys_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, cores in [(None, 8), (2.5, 2), (0.5, 1), (64.0, 8)]:
        monkeypatch.setattr(host, "cgroup_quota", lambda *_, quota=quota: quota)
        assert host.cpu_count() == cores
