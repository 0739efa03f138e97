"""Sessions: threads, repeated calls, several inputs and outputs."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest
import tvm

import relay_layout
from relay_layout import host, models
from relay_layout.artifact import host_features, read_artifact
from relay_layout.errors import ArtifactError, InputError, TargetError
from relay_layout.targets.facts import INSTRUCTION_SETS, level_features


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runtime") / "network.rla"
    relay_layout.compile("squeezenet1_1", input_shapes={"input": (1, 3, 64, 64)}).save(path)
    return path


def test_results_do_not_depend_on_threads(artifact: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype="float32")
    outputs = [
        relay_layout.load(artifact, threads=threads).run({"input": image})["output"] for threads in (1, 2, 64)
    ]
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(outputs[0], outputs[2])


def test_one_thread_uses_one_core(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=1)
    image = np.zeros((1, 3, 64, 64), "float32")
    session.run({"input": image})
    wall, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(200):
        session.run({"input": image})
    after, wall = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - wall
    # Two threads would take twice the wall time; workers of an earlier session may still be going to sleep.
    assert after.ru_utime - before.ru_utime < 1.6 * wall


def test_outputs_are_not_overwritten_by_the_next_call(artifact: Path) -> None:
    session = relay_layout.load(artifact)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, 1, 3, 64, 64), dtype="float32")
    first = session.run({"input": images[0]})["output"]
    kept = first.copy()
    session.run({"input": images[1]})
    np.testing.assert_array_equal(first, kept)


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
    features = host_features()
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
    runnable = [name for name in names if set(level_features(name)) <= host_features()]
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


def test_threads_must_be_positive(artifact: Path) -> None:
    with pytest.raises(InputError) as raised:
        relay_layout.load(artifact, threads=0)
    assert str(raised.value) == "threads: expected at least 1, got 0"


def test_several_inputs_and_outputs_keep_their_names(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    builder = models.NetworkBuilder("two")
    left, right = builder.input("left", (1, 8, 6, 6)), builder.input("right", (1, 8, 6, 6))
    total = builder.add(left, right, "total")
    turned = builder.relu(builder.convolution(total, "convolution", 16, 3), "relu")
    network = builder.build({"sum": total, "turned": turned})
    models.export_onnx(network, tmp_path / "two.onnx")
    relay_layout.compile(tmp_path / "two.onnx").save(tmp_path / "two.rla")
    session = relay_layout.load(tmp_path / "two.rla")
    assert [spec.name for spec in session.inputs] == ["left", "right"]
    ones = np.ones((1, 8, 6, 6), "float32")
    outputs = session.run({"right": ones, "left": 2 * ones})
    assert list(outputs) == ["sum", "turned"]
    np.testing.assert_array_equal(outputs["sum"], 3 * ones)
    assert outputs["turned"].shape == (1, 16, 4, 4)
