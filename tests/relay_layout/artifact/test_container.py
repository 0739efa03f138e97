"""Artifacts as files: what is written comes back, and writing that fails leaves nothing."""

import ast
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from artifact_harness import LIBRARY, Array, make_build, make_manifest, make_weights, write

import relay_layout.artifact
from relay_layout.artifact import Content, container, read_artifact, write_artifact
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, InputError


def test_round_trip(tmp_path: Path) -> None:
    path, manifest, weights = tmp_path / "model.rla", make_manifest(), make_weights()
    write(path, manifest, LIBRARY, weights)
    loaded = read_artifact(path)
    assert loaded.path == str(path)
    ((build,), (content,)) = loaded.manifest.builds, loaded.contents
    assert bytes(content.library) == LIBRARY and memoryview(content.library).readonly
    assert replace(loaded.manifest, sections=(), builds=(replace(build, weights=()),)) == manifest
    assert [section.name for section in loaded.manifest.sections] == ["library wide", "weights"]
    assert list(content.weights) == list(weights)
    for name, array in weights.items():
        view = content.weights[name]
        assert view.dtype == array.dtype.newbyteorder("<") and view.shape == array.shape
        np.testing.assert_array_equal(view, array)


def test_several_builds(double: Path) -> None:
    loaded = read_artifact(double)
    assert [section.name for section in loaded.manifest.sections] == [
        "library narrow",
        "library wide",
        "weights",
    ]
    assert [bytes(content.library) for content in loaded.contents] == [LIBRARY, LIBRARY[::-1]]
    for content, size in zip(loaded.contents, (7, 9), strict=True):
        assert list(content.weights) == ["w", "b"]
        np.testing.assert_array_equal(content.weights["w"], np.arange(size))
        np.testing.assert_array_equal(content.weights["b"], np.ones(3))


def test_equal_bytes_are_stored_once(tmp_path: Path) -> None:
    ones, zeros = np.ones((2, 3), "float32"), np.zeros((2, 3), "float32")
    tables = [
        {"a": ones, "again": ones.copy(), "zeros": zeros},
        {
            "z": zeros.reshape(6),
            "whole": np.zeros(3, "int64"),
            "swapped": ones.astype(">f4"),
            "other": ones + 1,
        },
    ]
    manifest = make_manifest(builds=(make_build(), make_build(name="narrow")))
    write_artifact(tmp_path / "m", manifest, [Content(LIBRARY, table) for table in tables])
    loaded = read_artifact(tmp_path / "m")
    offsets = [[entry.offset for entry in build.weights] for build in loaded.manifest.builds]
    assert offsets == [[0, 0, 64], [64, 64, 0, 128]]
    assert loaded.manifest.sections[-1].size == 128 + 24
    for content, table in zip(loaded.contents, tables, strict=True):
        for name, array in table.items():
            assert content.weights[name].shape == array.shape
            np.testing.assert_array_equal(content.weights[name], array)


def test_contents_belong_to_builds(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError) as caught:
        write_artifact(tmp_path / "m", make_manifest(), [])
    assert str(caught.value) == f"{tmp_path / 'm'}: 0 contents for 1 builds"


def test_the_build_of_a_target_is_chosen_by_its_name(double: Path) -> None:
    loaded = read_artifact(double)
    builds = loaded.manifest.builds
    assert loaded.choose("narrow") == (builds[0], loaded.contents[0])
    with pytest.raises(InputError) as caught:
        loaded.choose("native")
    assert str(caught.value) == f"{double}: not built for 'native'; it was built for narrow, wide"


def test_views_are_aligned_read_only_and_share_the_mapping(tmp_path: Path) -> None:
    path = tmp_path / "model.rla"
    write(path, make_manifest(), LIBRARY, make_weights())
    loaded = read_artifact(path)
    assert loaded.manifest.sections[1].offset % 4096 == 0
    weights = loaded.contents[0].weights
    for view in weights.values():
        assert view.ctypes.data % 64 == 0
        assert not view.flags.writeable and not view.flags.owndata and view.flags.c_contiguous
    np.testing.assert_array_equal(weights["int8"], make_weights()["int8"])


def test_views_outlive_the_artifact_and_the_file(small: Path) -> None:
    view = read_artifact(small).contents[0].weights["w"]
    small.unlink()
    np.testing.assert_array_equal(view, np.arange(7))


def test_views_can_go_to_dlpack_without_a_copy(small: Path) -> None:
    before = small.read_bytes()
    view = read_artifact(small).contents[0].weights["w"]
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 99
    view.flags.writeable = True
    assert np.from_dlpack(view).ctypes.data == view.ctypes.data
    view[0] = 99
    assert small.read_bytes() == before


def test_no_weights(tmp_path: Path) -> None:
    builds = (make_build(num_threads_hint=None),)
    write(tmp_path / "m", make_manifest(inputs=(), outputs=(), builds=builds), LIBRARY, {})
    assert read_artifact(tmp_path / "m").contents[0].weights == {}


def test_writing_is_deterministic_and_replaces(small: Path) -> None:
    opened = read_artifact(small)
    before = small.read_bytes()
    write_artifact(small, opened.manifest, opened.contents)
    assert small.read_bytes() == before
    write(small, make_manifest(builds=(make_build(report={}),)), LIBRARY, {"w": np.zeros(7, "int8")})
    np.testing.assert_array_equal(opened.contents[0].weights["w"], np.arange(7))
    assert not read_artifact(small).contents[0].weights["w"].any()
    assert os.listdir(small.parent) == ["model.rla"]


def test_written_through_a_link_with_usual_permissions(small: Path) -> None:
    link = small.parent / "link"
    link.symlink_to(small)
    write(link, make_manifest(), LIBRARY, {})
    assert link.is_symlink() and read_artifact(small).contents[0].weights == {}
    plain = small.parent / "plain"
    plain.touch()
    assert stat.S_IMODE(small.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_large_arrays_are_written_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "_CHUNK", 1000)
    array = np.random.default_rng(0).standard_normal((123, 45)).astype("float32")
    write(tmp_path / "m", make_manifest(), LIBRARY * 50, {"w": array})
    loaded = read_artifact(tmp_path / "m")
    np.testing.assert_array_equal(loaded.contents[0].weights["w"], array)
    assert bytes(loaded.contents[0].library) == LIBRARY * 50


def test_needs_no_tvm() -> None:
    sources = [Path(host.__file__), *Path(relay_layout.artifact.__file__).parent.glob("*.py")]
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "tvm" for name in names), source


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
        write(path, make_manifest(), LIBRARY, Exploding(error))
    assert os.listdir(tmp_path) == (["model.rla"] if existing else [])
    assert not existing or path.read_bytes() == b"old"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    path = tmp_path / "model.rla"
    with pytest.raises(ArtifactError) as caught:
        write(path, make_manifest(), LIBRARY, {})
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"
    assert os.listdir(tmp_path) == []


def test_interrupt_in_the_middle_of_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(container, "_pad", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "model.rla", make_manifest(), LIBRARY, {})
    assert os.listdir(tmp_path) == []


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    def fail(path: Path) -> str:
        with pytest.raises(ArtifactError) as caught:
            write(path, make_manifest(), LIBRARY, {})
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
        write(tmp_path / "m", make_manifest(builds=(make_build(report=report),)), library, weights)
    assert words in str(caught.value)
    assert os.listdir(tmp_path) == []
