"""Models whose weights are in other files: where those may lie, and how damaged ones are refused."""

import os
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from relay_layout.frontend import from_onnx
from relay_layout.ir import constant_array
from tests.onnx_refusals import message_of

PLACE = "model 'm.onnx': tensor 'w' keeps its data in the file 'm.bin'"


def small_model() -> onnx.ModelProto:
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> case (float[5] x) => (float[5] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(numpy_helper.from_array(np.arange(5, dtype="float32"), "w"))
    return model


def save(folder: Path, location: str = "m.bin") -> None:
    (folder / location).parent.mkdir(parents=True, exist_ok=True)
    path = str(folder / "m.onnx")
    onnx.save(small_model(), path, save_as_external_data=True, location=location, size_threshold=0)


def state(key: str, value: str) -> None:
    """Change what the model in this folder says of where its data are."""
    model = onnx.load("m.onnx", load_external_data=False)
    found = {entry.key: entry for entry in model.graph.initializer[0].external_data}
    found[key].value = value
    Path("m.onnx").write_bytes(model.SerializeToString())


def weight_of(path: str | Path) -> np.ndarray:
    (binding,) = from_onnx(path)["main"].body.blocks[0].bindings
    return constant_array(binding.value.args[1])


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("location", ["m.bin", "weights/of/m.bin"])
def test_beside_the_model(location: str) -> None:
    save(Path(), location)
    np.testing.assert_array_equal(weight_of("m.onnx"), np.arange(5))


def test_links_of_a_cache() -> None:
    save(Path("written"))
    os.makedirs("blobs")
    os.makedirs("snapshots/main")
    for name in ("m.onnx", "m.bin"):
        os.rename(f"written/{name}", f"blobs/of_{name}")
        os.symlink(f"../../blobs/of_{name}", f"snapshots/main/{name}")
    np.testing.assert_array_equal(weight_of("snapshots/main/m.onnx"), np.arange(5))


def test_file_of_two_names() -> None:
    save(Path())
    os.link("m.bin", "again.bin")
    np.testing.assert_array_equal(weight_of("m.onnx"), np.arange(5))


def test_link_to_elsewhere(folder: Path) -> None:
    save(Path("inner"))
    os.rename("inner/m.bin", "m.bin")
    os.symlink("../m.bin", "inner/m.bin")
    os.chdir("inner")
    expected = f"{PLACE}, which is a link to '{folder.resolve()}/m.bin': put the file itself beside the model"
    assert message_of("m.onnx") == expected


def test_without_a_length() -> None:
    save(Path())
    state("length", "")
    np.testing.assert_array_equal(weight_of("m.onnx"), np.arange(5))


def test_too_short() -> None:
    save(Path())
    os.truncate("m.bin", 3)
    assert message_of("m.onnx") == f"{PLACE}, which is too short: it has 3 bytes, not 20"


def test_offset_past_the_end() -> None:
    save(Path())
    state("offset", "64")
    state("length", "")
    assert message_of("m.onnx") == f"{PLACE}, which is too short: it has 20 bytes, not 64"


@pytest.mark.parametrize("text", ["-4", "a"])
def test_offset_that_is_none(text: str) -> None:
    save(Path())
    state("offset", text)
    expected = f"{PLACE}, and its offset there is '{text}', which is no number of bytes"
    assert message_of("m.onnx") == expected


def test_missing() -> None:
    save(Path())
    os.remove("m.bin")
    assert message_of("m.onnx") == f"{PLACE}, which is missing in '.'"


def test_pointer_in_place_of_the_data() -> None:
    save(Path())
    Path("m.bin").write_bytes(b"version https://git-lfs")
    state("length", "64")
    assert message_of("m.onnx") == f"{PLACE}, which is a Git LFS pointer: fetch it with 'git lfs pull'"


def test_above_the_model() -> None:
    save(Path())
    state("location", "../m.bin")
    expected = PLACE.replace("m.bin", "../m.bin") + ", which is not beside the model"
    assert message_of("m.onnx") == expected


def test_object_without_its_data() -> None:
    save(Path())
    assert message_of(onnx.load("m.onnx", load_external_data=False)) == (
        "ONNX model 'case': tensor 'w' keeps its data in the file 'm.bin': "
        "load that first, or give the model's path"
    )
