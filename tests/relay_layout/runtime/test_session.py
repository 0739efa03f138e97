"""Calls of sessions: inputs, outputs, and the memory that they are in."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout import models
from relay_layout.compiler import CompiledModel
from relay_layout.errors import InputError
from relay_layout.runtime import profiling
from relay_layout.runtime import session as session_module
from tests.relax_modules import main_of, module_giving
from tests.relay_layout.runtime.random_arrays import randoms


def resident() -> int:
    """Bytes of memory that this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_memory_does_not_grow_with_the_number_of_sizes(tmp_path: Path) -> None:
    extents = [tvm.tirx.Var(name, "int64") for name in ("h", "w")]
    image = relax.Var("image", relax.TensorType((1, 4, *extents), "float32"))
    with main_of(image) as builder:
        shrunk = builder.emit(relax.op.nn.max_pool2d(image, (3, 3), padding=(1, 1)))
        mean = builder.emit(relax.op.mean(builder.emit(relax.op.exp(shrunk)), [2, 3]))
        builder.result = relax.Tuple([mean])
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


def test_memory_that_there_is_not(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = relay_layout.load(artifact)

    def entry(*_: Any) -> None:
        raise RuntimeError("std::bad_alloc")

    monkeypatch.setattr(session, "_entry", entry)
    with pytest.raises(MemoryError) as raised:
        session.run({"input": randoms(0, 1, 3, 64, 64)})
    assert str(raised.value) == (
        "the network's intermediate results and outputs need more than there is; give smaller inputs"
    )


def test_outputs_are_not_overwritten_by_the_next_call(artifact: Path) -> None:
    session = relay_layout.load(artifact)
    rng = np.random.default_rng(0)
    images = rng.standard_normal((2, 1, 3, 64, 64), dtype="float32")
    first = session.run({"input": images[0]})["output"]
    kept = first.copy()
    session.run({"input": images[1]})
    np.testing.assert_array_equal(first, kept)


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
    relay_layout.compile(module_giving(function(*inputs), *inputs), desired_layout="none").save(path)
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


def test_what_is_shown_of_a_network_is_short(artifact: Path) -> None:
    session = relay_layout.load(artifact, threads=1)
    assert repr(session).startswith("Session(target='native', threads=1, inputs=(TensorSpec(name='input'")
    assert len(repr(session)) < 300
    assert len(repr(session.artifact)) < 2000
    assert len(repr(CompiledModel(session.artifact.manifest, session.artifact.contents))) < 2000
