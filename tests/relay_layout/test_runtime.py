"""Sessions: threads, repeated calls, several inputs and outputs."""

import resource
import time
from pathlib import Path

import numpy as np
import pytest

import relay_layout
from relay_layout import models
from relay_layout.errors import InputError


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
