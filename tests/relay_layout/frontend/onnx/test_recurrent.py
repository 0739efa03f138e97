"""LSTM, GRU and RNN beside ONNX Runtime, and what of them is refused."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax

import relay_layout
from relay_layout.errors import InputError, ModelError
from relay_layout.frontend import from_onnx
from relay_layout.lower.legalize.recurrent_layers import unroll_layers
from relay_layout.lower.stages import lower
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.targets import resolve_target
from tests.onnx_reference import reference_session

TARGET = tvm.target.Target({"kind": "llvm", "opt-level": 0})
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
PARAMETERS = {
    "Affine": 2,
    "Elu": 1,
    "HardSigmoid": 2,
    "LeakyRelu": 1,
    "Relu": 0,
    "ScaledTanh": 2,
    "Sigmoid": 0,
    "Softplus": 0,
    "Softsign": 0,
    "Tanh": 0,
    "ThresholdedRelu": 1,
}
"""How many parameters an activation has. They are always given: ONNX Runtime's defaults are not ONNX's."""


@dataclass(frozen=True)
class Case:
    """One recurrent node: arrays by the place of the input, of which ``runtime`` are no constants."""

    operator: str
    attributes: Mapping[str, Any]
    arrays: Mapping[int, np.ndarray]
    runtime: frozenset[int]
    outputs: tuple[str, ...]
    symbolic: bool = False

    def model(self) -> Any:
        place = {0: 0 if self.attributes.get("layout") else 1, 4: 0, 5: 1, 6: 1}
        names = [f"i{index}" if index in self.arrays else "" for index in range(max(self.arrays) + 1)]
        node = helper.make_node(self.operator, names, self.outputs, "cell", **self.attributes)
        inputs = []
        for index in sorted(self.runtime):
            shape: list[Any] = list(self.arrays[index].shape)
            if self.symbolic:
                shape[place[index]] = "N"
            dtype = helper.np_dtype_to_tensor_dtype(self.arrays[index].dtype)
            inputs.append(helper.make_tensor_value_info(f"i{index}", dtype, shape))
        graph = helper.make_graph(
            [node],
            "g",
            inputs,
            [helper.make_tensor_value_info(name, 1, None) for name in self.outputs if name],
            [
                numpy_helper.from_array(array, f"i{index}")
                for index, array in self.arrays.items()
                if index not in self.runtime
            ],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def feeds(self) -> dict[str, np.ndarray]:
        return {f"i{index}": self.arrays[index] for index in sorted(self.runtime)}


def _random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")


def case_of(seed: int) -> Case:
    """A random combination of what ONNX Runtime has; ``python -c "... case_of(SEED)"`` gives it again."""
    draw = random.Random(seed)
    operator = list(GATES)[seed % 3]
    direction = ["forward", "reverse", "bidirectional"][seed // 3 % 3]
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, inputs, hidden = (draw.choice(extents) for extents in ([1, 2, 3], [1, 2], [2, 5], [1, 3]))
    rows = GATES[operator] * hidden
    arrays = {
        0: _random(steps, batch, inputs, seed=seed),
        1: _random(directions, rows, inputs, seed=seed + 1),
        2: _random(directions, rows, hidden, seed=seed + 2),
    }
    lengths = np.array([draw.randint(1, steps) for _ in range(batch)], "int32")
    optional = {3: _random(directions, 2 * rows), 4: lengths, 5: _random(directions, batch, hidden)}
    if operator == "LSTM":
        optional |= {6: _random(directions, batch, hidden, seed=1), 7: _random(directions, 3 * hidden)}
    arrays |= {index: array for index, array in optional.items() if draw.random() < 0.5}
    attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
    # ONNX clips whatever an activation reads; of LSTMs, ONNX Runtime neither the cell nor what peepholes add.
    if draw.random() < 0.3 and operator != "LSTM":
        attributes["clip"] = 0.5
    if operator == "LSTM" and draw.random() < 0.2:
        attributes["input_forget"] = 1
    if operator == "GRU" and draw.random() < 0.5:
        attributes["linear_before_reset"] = 1
    if draw.random() < 0.5:
        names = [draw.choice(list(PARAMETERS)) for _ in range(ACTIVATIONS[operator] * directions)]
        attributes["activations"] = names
        for parameter, least in (("alpha", 1), ("beta", 2)):
            count = sum(PARAMETERS[name] >= least for name in names)
            if count:
                attributes[f"activation_{parameter}"] = [draw.choice([0.25, 0.5, 0.75])] * count
    symbolic = seed % 4 == 0
    changing = {index for index in arrays if index in (4, 5, 6) and (symbolic or draw.random() < 0.5)}
    outputs = ["y", "h", "c"][: 3 if operator == "LSTM" else 2]
    wanted = {draw.choice(outputs), draw.choice(outputs)}
    named = tuple(name if name in wanted else "" for name in outputs)
    return Case(operator, attributes, arrays, frozenset({0, *changing}), named, symbolic)


def expected(case: Case) -> list[np.ndarray]:
    return list(reference_session(case.model().SerializeToString()).run(None, case.feeds()))


def computed(cases: Mapping[str, Case], unrolled: bool = False) -> dict[str, list[np.ndarray]]:
    """What the cases give, compiled together; ``unrolled`` as they are for a GPU."""
    functions = {}
    for name, case in cases.items():
        functions[name] = from_onnx(case.model())["main"].with_attr("global_symbol", name)
    module = tvm.IRModule(functions)
    if unrolled:
        module = unroll_layers(module, "cuda-sm_80", has_loop=False)
    machine = relax.VirtualMachine(tvm.compile(module, TARGET), tvm.cpu())
    results = {}
    for name, case in cases.items():
        result = machine[name](*(tvm.runtime.tensor(array) for array in case.feeds().values()))
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        results[name] = [tensor.numpy() for tensor in tensors]
    return results


def assert_close(ours: list[np.ndarray], theirs: list[np.ndarray], reproducer: str) -> None:
    assert [array.shape for array in ours] == [array.shape for array in theirs], reproducer
    for left, right in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(left, right, rtol=2e-5, atol=2e-5, err_msg=reproducer)


SEEDS = range(9)


@pytest.fixture(scope="module", params=[False, True], ids=["loop", "unrolled"])
def outputs(request: pytest.FixtureRequest) -> dict[str, list[np.ndarray]]:
    return computed({f"seed_{seed}": case_of(seed) for seed in SEEDS}, request.param)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_combinations_agree_with_onnx_runtime(seed: int, outputs: dict[str, list[np.ndarray]]) -> None:
    case = case_of(seed)
    assert_close(outputs[f"seed_{seed}"], expected(case), f"case_of({seed}): {case}")


@pytest.mark.slow
@pytest.mark.parametrize("unrolled", [False, True], ids=["loop", "unrolled"])
def test_many_random_combinations(unrolled: bool) -> None:
    for start in range(100, 400, 50):
        cases = {f"seed_{seed}": case_of(seed) for seed in range(start, start + 50)}
        for name, ours in computed(cases, unrolled).items():
            assert_close(ours, expected(cases[name]), f"case_of({name.removeprefix('seed_')})")


@pytest.mark.parametrize("operator", GATES)
def test_batch_first(operator: str) -> None:
    """ONNX Runtime has layout 0 alone: the same tensors in that order are the reference."""
    rows, places = GATES[operator] * 3, (5, 6) if operator == "LSTM" else (5,)
    arrays = {0: _random(4, 2, 5), 1: _random(2, rows, 5), 2: _random(2, rows, 3)}
    arrays |= {place: _random(2, 2, 3, seed=place) for place in places}
    attributes = {"hidden_size": 3, "direction": "bidirectional"}
    named = ("y", "h", "c")[: len(places) + 1]
    first = Case(operator, attributes, arrays, frozenset({0, *places}), named)
    swapped = {
        index: array.swapaxes(0, 1) if index in (0, 5, 6) else array for index, array in arrays.items()
    }
    ours = Case(operator, attributes | {"layout": 1}, swapped, first.runtime, named)
    whole, *states = expected(first)
    wanted = [whole.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in states)]
    assert_close(computed({"ours": ours})["ours"], wanted, operator)


def _sigmoid(value: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-value))


def test_clip_bounds_what_peepholes_add() -> None:
    weights, recurrence, holes = _random(1, 12, 5), _random(1, 12, 3), _random(1, 9)
    data, cell = _random(1, 2, 5), _random(1, 2, 3)
    case = Case(
        "LSTM",
        {"hidden_size": 3, "clip": 0.5},
        {0: data, 1: weights, 2: recurrence, 6: cell, 7: holes},
        frozenset({0}),
        ("", "", "c"),
    )
    entering, _, forget, fresh = np.split(data[0] @ weights[0].T, 4, axis=1)
    into, _, keep = np.split(holes[0], 3)
    entering, forget = (
        _sigmoid(np.clip(gate + hole * cell[0], -0.5, 0.5))
        for gate, hole in ((entering, into), (forget, keep))
    )
    wanted = forget * cell[0] + entering * np.tanh(np.clip(fresh, -0.5, 0.5))
    assert_close(computed({"ours": case})["ours"], [wanted[None]], "clip with peepholes")


@pytest.mark.parametrize("operator", GATES)
def test_weights_that_are_computed(operator: str) -> None:
    rows = GATES[operator] * 4
    arrays = {0: _random(3, 2, 5), 1: _random(2, rows, 5), 2: _random(2, rows, 4), 3: _random(2, 2 * rows)}
    attributes: dict[str, Any] = {"hidden_size": 4, "direction": "bidirectional"}
    plain = Case(operator, attributes, arrays, frozenset(arrays), ("y", "h"))
    cases = {"plain": plain}
    if operator == "GRU":
        again = Case(operator, attributes | {"linear_before_reset": 1}, arrays, frozenset(arrays), ("y", "h"))
        cases["linear"] = again
    for unrolled in (False, True):
        for name, ours in computed(cases, unrolled).items():
            assert_close(ours, expected(cases[name]), f"{operator} {name}")


def _refused(operator: str = "LSTM", **changes: Any) -> str:
    arrays = {0: _random(4, 2, 5), 1: _random(1, 12, 5), 2: _random(1, 12, 3)} | changes.pop("arrays", {})
    case = Case(operator, {"hidden_size": 3} | changes, arrays, frozenset({0}), ("y",))
    with pytest.raises(ModelError) as caught:
        from_onnx(case.model())
    return str(caught.value).removeprefix(f"ONNX model 'g': node 'cell' ({operator}) ")


@pytest.mark.parametrize("given", [False, True], ids=["alone", "lengths and states"])
@pytest.mark.parametrize("batch_first", [False, True], ids=["time first", "batch first"])
@pytest.mark.parametrize(
    ("operator", "direction", "hidden", "attributes"),
    [
        ("LSTM", "forward", 5, {}),
        ("LSTM", "bidirectional", 24, {}),
        ("GRU", "bidirectional", 16, {"linear_before_reset": 1}),
        ("GRU", "reverse", 12, {"clip": 0.5}),
        ("RNN", "bidirectional", 8, {"activations": ["Tanh", "Relu"]}),
        ("LSTM", "reverse", 7, {"input_forget": 1}),
    ],
)
def test_sequences_of_any_length(
    operator: str,
    direction: str,
    hidden: int,
    attributes: dict[str, Any],
    batch_first: bool,
    given: bool,
    tmp_path: Path,
) -> None:
    """One artifact, several lengths and batches; ONNX Runtime has time first alone."""
    directions, rows = 2 if direction == "bidirectional" else 1, GATES[operator] * hidden
    weights = {1: _random(directions, rows, 6), 2: _random(directions, rows, hidden) / 4}
    weights |= {3: _random(directions, 2 * rows)}
    states = ((5, 6) if operator == "LSTM" else (5,)) if given else ()
    outputs = ("y", "h", "c")[: 3 if operator == "LSTM" else 2]
    attributes = attributes | {"hidden_size": hidden, "direction": direction}

    def model(first: str, second: str, **more: Any) -> Any:
        arrays = {0: _random(2, 3, 6), **weights}
        arrays |= {place: _random(directions, 3, hidden) for place in states}
        arrays |= {4: np.array([2, 1, 2], "int32")} if given else {}
        runtime = frozenset({0, *((4, *states) if given else ())})
        case = Case(operator, attributes | more, arrays, runtime, outputs)
        found = case.model()
        for declared in found.graph.input:
            names = {"i0": (first, second), "i4": ("batch",)}
            fallback = ("batch", None) if more else (None, "batch")
            sizes = names.get(declared.name, fallback)
            for extent, name in zip(declared.type.tensor_type.shape.dim, sizes, strict=False):
                if name is not None:
                    extent.dim_param = name
                elif declared.name not in names:
                    extent.dim_value = directions
        return found

    ours = model("batch", "length", layout=1) if batch_first else model("length", "batch")
    relay_layout.compile(ours, threads=2).save(tmp_path / "layer.rla")
    session = relay_layout.load(tmp_path / "layer.rla")
    reference = reference_session(model("length", "batch").SerializeToString())
    for length, batch in ((1, 1), (7, 3), (19, 2)):
        feed = {"i0": _random(length, batch, 6, seed=1)}
        feed |= {f"i{place}": _random(directions, batch, hidden, seed=place) for place in states}
        if given:
            feed["i4"] = np.random.default_rng(batch).integers(1, length + 1, batch).astype("int32")
        whole, *last = reference.run(None, feed)
        if batch_first:
            turned = {name: array.swapaxes(0, 1) for name, array in feed.items() if name != "i4"}
            feed |= {name: np.ascontiguousarray(array) for name, array in turned.items()}
            whole, last = whole.transpose(2, 0, 1, 3), [state.swapaxes(0, 1) for state in last]
        found = list(session.run(feed).values())
        assert_close(found, [whole, *last], f"{length} steps of {batch}")


def test_states_of_a_batch_of_another_name() -> None:
    """A file may leave both open, each for itself: there have to be as many states as sequences."""
    arrays = {0: _random(4, 2, 5), 1: _random(1, 3, 5), 2: _random(1, 3, 3), 5: _random(1, 2, 3)}
    case = Case("RNN", {"hidden_size": 3}, arrays, frozenset({0, 5}), ("y",))
    model = case.model()
    for declared, name in zip(model.graph.input, ("batch", "states"), strict=True):
        declared.type.tensor_type.shape.dim[1].dim_param = name
    session = relay_layout.compile(model).session()
    assert_close(
        list(session.run({"i0": arrays[0], "i5": arrays[5]}).values()), expected(case), "two of both"
    )
    with pytest.raises(InputError) as error:
        session.run({"i0": arrays[0], "i5": _random(1, 3, 3)})
    assert str(error.value) == "input 'i5': dimension 1 ('batch') is 3, but input 'i0' has batch = 2"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": "sideways"}, "has the unknown direction 'sideways'"),
        (
            {"direction": "bidirectional"},
            "reads [4,2,5] with weights of [1,12,5] and [1,12,3], "
            "which do not fit the direction 'bidirectional'",
        ),
        ({"hidden_size": 4}, "has hidden_size 4, but weights for 3"),
        ({"activations": ["Sigmoid", "Tanh"]}, "names 2 activations where 3 are due"),
        (
            {"activations": ["Sigmoid", "Tanh", "Cube"]},
            "has the activation 'Cube', which is not supported; affine, elu, hardsigmoid, leakyrelu, relu, "
            "scaledtanh, sigmoid, softplus, softsign, tanh, thresholdedrelu are",
        ),
        ({"arrays": {3: _random(1, 12)}}, "has [1,12] for its input 3, where [1,24] is due"),
        (
            {"arrays": {4: np.array([4, 5], "int32")}},
            "has lengths [4, 5] of sequences of 4 steps",
        ),
    ],
)
def test_what_does_not_fit_is_refused(changes: dict[str, Any], message: str) -> None:
    assert _refused(**changes) == message


def _reader() -> Any:
    """Reads 16 columns of an image: convolutions, LSTMs in both directions, scores."""
    nodes = [
        helper.make_node("Conv", ["x", "k0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["c", "k1"], ["d"]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Squeeze", ["e", "two"], ["f"]),
        helper.make_node("Transpose", ["f"], ["g"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["g", "w", "r", "b2"], ["h"], hidden_size=8, direction="bidirectional"),
        helper.make_node("Transpose", ["h"], ["i"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["i", "shape"], ["j"]),
        helper.make_node("MatMul", ["j", "m"], ["y"]),
    ]
    arrays = {
        "k0": _random(8, 1, 3, 3),
        "k1": _random(16, 8, 4, 1),
        "two": np.array([2]),
        "w": _random(2, 32, 16) * 0.2,
        "r": _random(2, 32, 8) * 0.2,
        "b2": _random(2, 64),
        "shape": np.array([0, 0, -1]),
        "m": _random(16, 11),
    }
    graph = helper.make_graph(
        nodes,
        "reader",
        [helper.make_tensor_value_info("x", 1, [1, 1, 8, 32])],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(array.astype(array.dtype), name) for name, array in arrays.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_a_network_that_reads_text(layout: str, tmp_path: Any) -> None:
    model = _reader()
    image = _random(1, 1, 8, 32, seed=3)
    compiled = relay_layout.compile(model, desired_layout=layout, threads=1)
    path = tmp_path / "reader.rla"
    compiled.save(path)
    ours = relay_layout.load(path, threads=1).run({"x": image})
    session = reference_session(model.SerializeToString())
    (wanted,) = session.run(None, {"x": image})
    (array,) = ours.values() if isinstance(ours, dict) else ours
    np.testing.assert_allclose(array, wanted, rtol=1e-4, atol=1e-4)


def _network(steps: int, *, hidden: int = 32, direction: str = "forward") -> Any:
    directions = 2 if direction == "bidirectional" else 1
    arrays = {
        0: _random(steps, 1, 32),
        1: _random(directions, 4 * hidden, 32),
        2: _random(directions, 4 * hidden, hidden),
    }
    attributes = {"hidden_size": hidden, "direction": direction}
    return Case("LSTM", attributes, arrays, frozenset({0}), ("y", "h", "")).model()


def test_many_steps_are_one_kernel() -> None:
    compiled = relay_layout.compile(_network(200, direction="bidirectional"), threads=1)
    names = [entry["name"] for entry in compiled.report["functions"]]
    assert sum("lstm" in name for name in names) == 1 and len(names) < 5, names
    assert compiled.report["ops"] < 5


def test_weights_are_held_once() -> None:
    arrays = {0: _random(12, 1, 32), 1: _random(1, 128, 32), 2: _random(1, 128, 32)}
    case = Case("LSTM", {"hidden_size": 32}, arrays, frozenset({0}), ("", "h", ""))
    for target in ("native", "cuda-sm_80"):
        resolved = resolve_target(target, threads=1)
        weights = lower(canonicalize(from_onnx(case.model())), resolved, lambda line: None).weights
        held = sum(array.nbytes for array in weights.values())
        assert held < 1.5 * (arrays[1].nbytes + arrays[2].nbytes), target
