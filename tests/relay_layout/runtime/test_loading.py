"""What sessions are loaded from: one of several targets, a library in a temporary folder, or memory."""

import gc
import pickle
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

import relay_layout
from relay_layout import models
from relay_layout.artifact import read_artifact
from relay_layout.compiler import CompiledModel
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, InputError, TargetError
from relay_layout.targets.x86 import INSTRUCTION_SETS, level_features
from tests.relay_layout.runtime.random_arrays import randoms

X86 = pytest.mark.skipif(host.architecture() != "x86_64", reason="compiles for x86-64 levels")


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "levels.rla"
    compiled = relay_layout.compile(small_network(), target=["x86-64-v2", "x86-64-v3", "x86-64-v4"])
    compiled.save(path)
    return path


def small_network() -> tvm.IRModule:
    """A convolution with a bias, which all targets take as it is, and a weight, which each blocks."""
    builder = models.NetworkBuilder("small")
    image = builder.input("input", (1, 32, 10, 10))
    return models.to_relax(
        builder.build({"output": builder.convolution(image, "convolution", 32, 3, bias=True)})
    )


@X86
def test_the_last_target_that_this_machine_has_is_run(levels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = host.cpu_features() or frozenset()
    best = [name for name in INSTRUCTION_SETS if set(level_features(name)) <= features][-1]
    assert relay_layout.load(levels).target == best
    monkeypatch.setattr(host, "cpu_features", lambda: features - {"avx512vl"})
    assert relay_layout.load(levels).target in ("x86-64-v2", "x86-64-v3")
    monkeypatch.setattr(host, "cpu_features", lambda: features - {"avx2"})
    assert relay_layout.load(levels).target == "x86-64-v2"
    monkeypatch.setattr(host, "cpu_features", lambda: features - {"ssse3"})
    with pytest.raises(ArtifactError) as raised:
        relay_layout.load(levels)
    assert str(raised.value).startswith(
        f"{levels}: this machine runs none of its targets: x86-64-v2 (needs CPU feature ssse3 which"
    )


@X86
def test_all_targets_agree_and_share_weights(levels: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 32, 10, 10), dtype="float32")
    manifest = read_artifact(levels).manifest
    names = [build.name for build in manifest.builds]
    assert names == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    runnable = [name for name in names if set(level_features(name)) <= (host.cpu_features() or frozenset())]
    outputs = [relay_layout.load(levels, target=name).run({"input": image})["output"] for name in runnable]
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=1e-4, atol=1e-4)
    entries = [entry for build in manifest.builds for entry in build.weights]
    stored = {(entry.offset, entry.nbytes) for entry in entries}
    assert sum(size for _, size in stored) < sum(entry.nbytes for entry in entries)


def test_lists_of_targets_that_cannot_be_compiled_for() -> None:
    with pytest.raises(TargetError) as twice:
        relay_layout.compile(small_network(), target=["native", "native"])
    assert str(twice.value) == "target native is given twice"
    with pytest.raises(TargetError) as none:
        relay_layout.compile(small_network(), target=[])
    assert str(none.value) == "the list of targets is empty"


def test_a_folder_for_temporary_files_that_takes_none_is_told_of(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose file system is read-only."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(ArtifactError) as raised:
        relay_layout.load(artifact)
    assert str(raised.value) == (
        f"the code cannot be loaded: there is no place for temporary files ({tmp_path}/gone: no such file); "
        "set $TMPDIR to a folder that takes some"
    )


def test_a_folder_from_which_no_program_is_loaded_is_told_of(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: str, **options: Any) -> None:
        raise RuntimeError(f"Failed to load dynamic shared library {path} {path}: failed to map segment")

    monkeypatch.setattr("tvm_ffi.load_module", refused)
    with pytest.raises(ArtifactError) as raised:
        relay_layout.load(artifact)
    assert f"({tempfile.gettempdir()}: failed to map segment); set $TMPDIR to" in str(raised.value)


def test_a_library_is_unloaded_with_its_session(artifact: Path) -> None:
    """Services load networks anew for as long as they run."""

    def libraries() -> int:
        return Path("/proc/self/maps").read_text().count("/library.so")

    gc.collect()
    before = libraries()
    session = relay_layout.load(artifact)
    outputs = session.run({"input": randoms(0, *session.inputs[0].shape)})
    assert libraries() > before
    del session
    gc.collect()
    assert libraries() == before
    assert np.isfinite(outputs["output"]).all()


def test_a_session_ends_with_its_block(artifact: Path) -> None:
    def held() -> tuple[int, int]:
        maps = Path("/proc/self/maps").read_text()
        return maps.count("/library.so") + maps.count(str(artifact)), len(
            list(Path("/proc/self/task").iterdir())
        )

    gc.collect()
    before = held()
    with relay_layout.load(artifact, threads=1) as session:
        outputs = session.run({"input": randoms(0, *session.inputs[0].shape)})
        assert held()[0] > before[0]
    gc.collect()
    assert held() == before
    assert np.isfinite(outputs["output"]).all()
    session.close()


@pytest.mark.parametrize(
    "call",
    [
        lambda session, image: session.run(image),
        lambda session, image: session.feed(image),
        lambda session, image: session.execute(),
        lambda session, image: session.launch(),
        lambda session, image: session.observe(lambda *_: 0),
    ],
)
def test_a_session_that_is_closed_is_told_of(artifact: Path, call: Any) -> None:
    session = relay_layout.load(artifact)
    image = {"input": randoms(0, *session.inputs[0].shape)}
    session.feed(image)
    session.close()
    with pytest.raises(InputError, match=r"^the session is closed; relay_layout\.load the artifact again$"):
        call(session, image)
    assert session.inputs[0].name == "input"


def test_what_was_compiled_runs_without_a_file(artifact: Path) -> None:
    read = read_artifact(artifact)
    contents = [
        replace(content, weights={name: array.copy() for name, array in content.weights.items()})
        for content in read.contents
    ]
    compiled = CompiledModel(read.manifest, tuple(contents))
    image = {"input": randoms(0, 1, 3, 64, 64)}
    expected = relay_layout.load(artifact, threads=1).run(image)["output"]
    np.testing.assert_array_equal(compiled.session(threads=1).run(image)["output"], expected)


@pytest.mark.parametrize("path", [None, b"network.rla", 3])
def test_what_is_no_path_is_said(path: Any) -> None:
    with pytest.raises(InputError, match="loaded from the path of its file, not from "):
        relay_layout.load(path)


def test_sessions_are_not_pickled(artifact: Path) -> None:
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        pickle.dumps(relay_layout.load(artifact))
