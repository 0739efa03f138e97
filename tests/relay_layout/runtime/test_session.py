"""Sessions: threads, repeated calls, several inputs and outputs."""

import gc
import os
import pickle
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout import host, models
from relay_layout.artifact import read_artifact
from relay_layout.compiler import CompiledModel
from relay_layout.errors import ArtifactError, InputError, TargetError
from relay_layout.runtime import profiling
from relay_layout.runtime import session as session_module
from relay_layout.targets.x86 import INSTRUCTION_SETS, level_features


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


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow_with_the_number_of_sizes(tmp_path: Path) -> None:
    builder = relax.BlockBuilder()
    extents = [tvm.tirx.Var(name, "int64") for name in ("h", "w")]
    image = relax.Var("image", relax.TensorType((1, 4, *extents), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            shrunk = builder.emit(relax.op.nn.max_pool2d(image, (3, 3), padding=(1, 1)))
            mean = builder.emit(relax.op.mean(builder.emit(relax.op.exp(shrunk)), [2, 3]))
            result = builder.emit_output(relax.Tuple([mean]))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize()).save(tmp_path / "sizes.rla")
    session = relay_layout.load(tmp_path / "sizes.rla", threads=1)
    name, rng = session.inputs[0].name, np.random.default_rng(0)
    largest = np.zeros((1, 4, 600, 600), "float32")
    session.run({name: largest})
    before = resident()
    for _ in range(60):
        rows, columns = rng.integers(400, 600, 2)
        session.run({name: np.ascontiguousarray(largest[:, :, :rows, :columns])})
    assert resident() - before < 16 * largest.nbytes


def test_outputs_are_not_overwritten_by_the_next_call(artifact: Path) -> None:
    session = relay_layout.load(artifact)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, 1, 3, 64, 64), dtype="float32")
    first = session.run({"input": images[0]})["output"]
    kept = first.copy()
    session.run({"input": images[1]})
    np.testing.assert_array_equal(first, kept)


def randoms(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype="float32")


def test_arrays_that_execute_gave_are_not_overwritten(artifact: Path) -> None:
    session = relay_layout.load(artifact)
    session.feed({"input": randoms(0, 1, 3, 64, 64)})
    (first,) = session.execute()
    kept = first.copy()
    session.feed({"input": randoms(1, 1, 3, 64, 64)})
    (second,) = session.execute()
    np.testing.assert_array_equal(first, kept)
    assert not np.array_equal(second, kept)


def test_nothing_runs_before_the_inputs_are_fed(artifact: Path) -> None:
    with pytest.raises(InputError) as raised:
        relay_layout.load(artifact).execute()
    assert str(raised.value) == "there is nothing to run before the inputs are fed"


@pytest.mark.parametrize("arrange", [np.asfortranarray, lambda x: x.astype(">f4"), lambda x: x[..., ::-1]])
def test_inputs_need_not_be_contiguous(artifact: Path, arrange: Callable[[np.ndarray], np.ndarray]) -> None:
    session = relay_layout.load(artifact)
    image = arrange(randoms(0, 1, 3, 64, 64))
    expected = session.run({"input": np.array(image, "float32", order="C")})["output"]
    session.run({"input": np.zeros_like(image)})
    np.testing.assert_array_equal(session.run({"input": image})["output"], expected)


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({}, "missing input 'input'; the model takes"),
        (
            {"input": np.zeros((1, 3, 64, 63), "float32")},
            "input 'input': expected float32 [1, 3, 64, 64], got",
        ),
        (
            {"input": np.zeros((1, 3, 64, 64), "int32")},
            "input 'input': expected float32 [1, 3, 64, 64], got int32",
        ),
        ({"input": [1.0]}, "input 'input': expected float32 [1, 3, 64, 64], got list"),
        ({"input": np.zeros((1, 3, 64, 64), "float32"), "x": np.zeros(1)}, "unexpected input 'x'; the model"),
        (np.zeros(3), "inputs: expected a dict {'input': ...}, got ndarray"),
        (None, "inputs: expected a dict {'input': ...}, got NoneType"),
        ({"x": np.zeros((1, 3, 64, 64), "float32")}, "missing input 'input' and unexpected input 'x'"),
    ],
)
def test_inputs_are_checked_in_every_call(artifact: Path, inputs: Any, words: str) -> None:
    session = relay_layout.load(artifact)
    image = randoms(0, 1, 3, 64, 64)
    expected = session.run({"input": image})["output"]
    with pytest.raises(InputError) as raised:
        session.run(inputs)
    assert str(raised.value).startswith(words)
    np.testing.assert_array_equal(session.run({"input": image})["output"], expected)


def test_inputs_that_look_like_those_before_are_not_checked_again(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = relay_layout.load(artifact)
    images = [randoms(seed, 1, 3, 64, 64) for seed in range(2)]
    expected = [relay_layout.load(artifact).run({"input": image})["output"] for image in images]
    checks: list[Any] = []
    original = session_module.check_inputs

    def checked(*given: Any, **options: Any) -> Any:
        checks.append(given)
        return original(*given, **options)

    monkeypatch.setattr(session_module, "check_inputs", checked)
    for image, wanted in zip(images, expected, strict=True):
        np.testing.assert_array_equal(session.run({"input": image})["output"], wanted)
    assert len(checks) == 1
    other = np.asfortranarray(images[0])
    np.testing.assert_array_equal(session.run({"input": other})["output"], expected[0])
    assert len(checks) == 2
    with pytest.raises(InputError):
        session.run({"input": np.ma.masked_array(images[0], images[0] > 0)})


def test_outputs_are_not_copied(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = relay_layout.load(artifact)
    session.feed({"input": randoms(0, 1, 3, 64, 64)})
    monkeypatch.setattr(np, "copyto", lambda *arrays: pytest.fail("copied"))
    one, other = (session.execute()[0] for _ in range(2))
    assert not np.may_share_memory(one, other)
    np.testing.assert_array_equal(one, other)


def test_a_launch_computes_outputs_in_the_memory_of_the_session(
    artifact: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = relay_layout.load(artifact)
    session.feed({"input": randoms(0, 1, 3, 64, 64)})
    monkeypatch.setattr(session, "_new_results", lambda: pytest.fail("allocated"))
    session.launch()


def test_outputs_that_are_something_else_are_copies(tmp_path: Path) -> None:
    """An input, and another output."""
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            found = builder.emit_output(relax.op.exp(data))
        builder.emit_func_output(relax.Tuple([data, found, found]))
    relay_layout.compile(builder.finalize()).save(tmp_path / "network.rla")
    session = relay_layout.load(tmp_path / "network.rla")
    image = np.ones((2, 3), "float32")
    arrays = [image, *session.run({"data": image}).values()]
    for place, array in enumerate(arrays):
        np.testing.assert_allclose(array, image if place < 2 else np.exp(image), rtol=1e-6)
        assert not any(np.may_share_memory(array, other) for other in arrays[:place])


def in_threads(count: int, work: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work, index) for index in range(count)]:
            done.result()


@pytest.mark.parametrize("shared", [False, True])
def test_threads_do_not_disturb_each_other(artifact: Path, shared: bool) -> None:
    images = [randoms(seed, 1, 3, 64, 64) for seed in range(4)]
    one = relay_layout.load(artifact, threads=1)
    expected = [one.run({"input": image})["output"] for image in images]

    def work(index: int) -> None:
        session = one if shared else relay_layout.load(artifact, threads=1 + index % 2)
        for _ in range(20):
            np.testing.assert_array_equal(session.run({"input": images[index]})["output"], expected[index])

    in_threads(4, work)


def test_each_session_keeps_its_number_of_threads(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pool that TVM has for every calling thread, where libraries have none of their own."""
    monkeypatch.setattr(session_module, "set_own_threads", lambda library, count: False)
    monkeypatch.setattr(session_module, "cpu_count", lambda: 2)
    set_to: list[int] = []
    original = session_module.set_threads
    monkeypatch.setattr(session_module, "set_threads", lambda count: (set_to.append(count), original(count)))
    sessions = [relay_layout.load(artifact, threads=threads) for threads in (1, 2)]
    image = {"input": randoms(0, 1, 3, 64, 64)}

    def work(_: int) -> None:
        for session in (sessions[0], sessions[0], sessions[1], sessions[1], sessions[0]):
            session.run(image)

    in_threads(1, work)
    assert set_to == [1, 2, 1]


def test_dynamic_shapes_in_turns(tmp_path: Path) -> None:
    relay_layout.compile(models.to_relax(models.build("squeezenet1_1", batch="n", image_size=32))).save(
        tmp_path / "n.rla"
    )
    session = relay_layout.load(tmp_path / "n.rla")
    batch = randoms(0, 3, 3, 32, 32)
    expected = session.run({"input": batch})["output"]
    single = session.run({"input": batch[1:2]})["output"]
    np.testing.assert_allclose(single, expected[1:2], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(session.run({"input": batch})["output"], expected)
    np.testing.assert_array_equal(session.run({"input": batch[1:2]})["output"], single)


def session_of(path: Path, function: Callable[..., Any], *inputs: relax.Var) -> relay_layout.Session:
    """A session of what ``function`` builds of the inputs, to which it adds nothing else."""
    builder = relax.BlockBuilder()
    with builder.function("main", list(inputs)):
        with builder.dataflow():
            result = builder.emit_output(function(*inputs))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize(), desired_layout="none").save(path)
    return relay_layout.load(path)


def tensor(name: str, *shape: int, dtype: str = "float32") -> relax.Var:
    return relax.Var(name, relax.TensorType(shape, dtype))


def test_an_input_as_output(tmp_path: Path) -> None:
    x = tensor("x", 2, 3)
    session = session_of(tmp_path / "model.rla", lambda x: relax.Tuple([x, relax.op.nn.relu(x)]), x)
    images = [randoms(seed, 2, 3) for seed in range(2)]
    first, second = (list(session.run({"x": image}).values()) for image in images)
    np.testing.assert_array_equal(first[0], images[0])
    np.testing.assert_array_equal(second[0], images[1])
    np.testing.assert_array_equal(first[1], np.maximum(images[0], 0))


def test_a_network_without_inputs(tmp_path: Path) -> None:
    table = randoms(0, 40)
    session = session_of(tmp_path / "model.rla", lambda: relax.op.nn.relu(relax.const(table)))
    for _ in range(2):
        (output,) = session.run({}).values()
        np.testing.assert_array_equal(output, np.maximum(table, 0))


@pytest.mark.parametrize("shape", [(), (0, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_scalars_and_empty_arrays(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    session = session_of(
        tmp_path / "model.rla", lambda x: relax.op.equal(x, x), tensor("x", *shape, dtype=dtype)
    )
    (output,) = session.run({"x": np.ones(shape, dtype)}).values()
    assert (output.shape, output.dtype) == (shape, np.dtype("bool")) and output.all()


def test_booleans(tmp_path: Path) -> None:
    session = session_of(tmp_path / "model.rla", relax.op.logical_not, tensor("x", 3, dtype="bool"))
    (output,) = session.run({"x": np.array([True, False, True])}).values()
    assert output.tolist() == [False, True, False]


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


def test_threads_must_be_positive(artifact: Path) -> None:
    with pytest.raises(InputError) as raised:
        relay_layout.load(artifact, threads=0)
    assert str(raised.value) == "threads: expected a whole number from 1 on, got 0"


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


def test_a_run_that_takes_the_memory_of_fed_inputs_forgets_them(artifact: Path) -> None:
    session = relay_layout.load(artifact)
    images = [randoms(seed, 1, 3, 64, 64) for seed in range(2)]
    session.feed({"input": images[0]})
    # Not contiguous, so it is copied to where the fed image is.
    session.run({"input": np.asfortranarray(images[1])})
    with pytest.raises(InputError, match=r"^there is nothing to run before the inputs are fed$"):
        session.execute()
    session.feed({"input": images[0]})
    expected = session.run({"input": images[0].copy()})["output"]
    session.feed({"input": images[0]})
    np.testing.assert_array_equal(np.from_dlpack(session.execute()[0]), expected)


def test_kernels_of_a_gpu_are_not_timed_one_by_one(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = relay_layout.load(artifact)
    monkeypatch.setattr(session, "on_gpu", True)
    with pytest.raises(InputError) as raised:
        profiling.profile(session, {}, repeat=1)
    assert str(raised.value) == "target native: kernels of a GPU cannot be timed one by one"


def test_threads_of_a_session_end_with_it(artifact: Path) -> None:
    if host.cpu_count() < 2:
        pytest.skip("one core: no thread is started")
    before = len(list(Path("/proc/self/task").iterdir()))
    session = relay_layout.load(artifact, threads=2)
    loaded = len(list(Path("/proc/self/task").iterdir()))
    session.run({"input": randoms(0, *session.inputs[0].shape)})
    assert len(list(Path("/proc/self/task").iterdir())) == loaded + 1
    del session
    gc.collect()
    assert len(list(Path("/proc/self/task").iterdir())) <= max(before, loaded)


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


def test_an_option_that_is_none_is_told_of(artifact: Path) -> None:
    with pytest.raises(InputError, match=r"^permute: expected True, False or None, got 'no'$"):
        relay_layout.load(artifact, permute="no")  # type: ignore[arg-type]


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


def test_a_child_runs_a_session_that_was_busy_when_it_was_forked(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=2)
    image = {"input": randoms(0, *session.inputs[0].shape)}
    expected = session.run(image)["output"]
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            session.run(image)

    busy = threading.Thread(target=work)
    busy.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                os._exit(int(not np.array_equal(session.run(image)["output"], expected)))
            assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        busy.join()


BUSY_AT_THE_END = """
import atexit, sys, threading
import numpy as np

atexit.register(lambda: print(session.run(image)["output"].shape))
import relay_layout

session = relay_layout.load(sys.argv[1], threads=2)
image = {"input": np.zeros(session.inputs[0].shape, "float32")}
begun = threading.Event()

def work():
    while True:
        session.run(image)
        begun.set()

threading.Thread(target=work, daemon=True).start()
begun.wait()
"""


def test_a_process_ends_while_a_daemon_runs_a_session(artifact: Path) -> None:
    for _ in range(3):
        words = [sys.executable, "-c", BUSY_AT_THE_END, str(artifact)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "(1, 1000)\n", "")


def test_what_is_shown_of_a_network_is_short(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=1)
    assert repr(session).startswith("Session(target='native', threads=1, inputs=(TensorSpec(name='input'")
    assert len(repr(session)) < 300
    assert len(repr(session.artifact)) < 2000
    assert len(repr(CompiledModel(session.artifact.manifest, session.artifact.contents))) < 2000


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


def test_a_library_without_threads_has_those_of_tvm() -> None:
    x = tvm.te.placeholder((4,), name="x")
    kernel = tvm.te.create_prim_func([x, tvm.te.compute((4,), lambda i: x[i] + 1, name="y")])
    assert not session_module.set_own_threads(tvm.compile(kernel, target="llvm").mod, 2)
