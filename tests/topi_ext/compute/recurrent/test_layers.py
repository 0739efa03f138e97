"""Recurrent layers beside the equations of ONNX, with threads that share sequences or the steps of each."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from topi_ext.compute.recurrent import layers
from topi_ext.compute.recurrent.activations import NAMES, SIGMOID, TANH, Activation
from topi_ext.compute.recurrent.layers import recurrent
from topi_ext.compute.recurrent.recurrence import Kind, Recurrence
from topi_ext.compute.recurrent.tiles import pack, packed
from topi_ext.machine.processor import ARM_CORES, Processor

Array = np.ndarray
RANDOM = np.random.default_rng(0)


ARM = ARM_CORES["cortex-a76"]
SHORT = replace(ARM, name="short", vector_registers=16)
LONG = replace(ARM, name="long", vector_bytes=64)


def random(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype("float32")


def sigmoid(value: Array) -> Array:
    return 1 / (1 + np.exp(-value))


FORMS: dict[str, Callable[[Array, float, float], Array]] = {
    "affine": lambda value, alpha, beta: alpha * value + beta,
    "elu": lambda value, alpha, beta: np.where(value < 0, alpha * np.expm1(value), value),
    "hardsigmoid": lambda value, alpha, beta: np.clip(alpha * value + beta, 0, 1),
    "leakyrelu": lambda value, alpha, beta: np.where(value < 0, alpha * value, value),
    "relu": lambda value, alpha, beta: np.maximum(value, 0),
    "scaledtanh": lambda value, alpha, beta: alpha * np.tanh(beta * value),
    "sigmoid": lambda value, alpha, beta: sigmoid(value),
    "softplus": lambda value, alpha, beta: np.log1p(np.exp(value)),
    "softsign": lambda value, alpha, beta: value / (1 + np.abs(value)),
    "tanh": lambda value, alpha, beta: np.tanh(value),
    "thresholdedrelu": lambda value, alpha, beta: np.where(value > alpha, value, 0),
}
"""Of a tensor, alpha and beta, as ONNX's operators of these names."""


@dataclass
class Direction:
    """One direction of a layer by the equations of ONNX."""

    layer: Recurrence
    index: int
    weight: Array
    bias: Array | None
    peepholes: Array | None

    def act(self, place: int, value: Array) -> Array:
        clip, form = self.layer.clip or np.inf, self.layer.activations[self.index][place]
        return FORMS[form.name](np.clip(value, -clip, clip), form.alpha, form.beta)

    def step(self, data: Array, states: list[Array]) -> list[Array]:
        again = states[0] @ self.weight
        if self.layer.kind == "RNN":
            return [self.act(0, data + again)]
        return (self.gru if self.layer.kind == "GRU" else self.lstm)(data, again, states)

    def lstm(self, data: Array, again: Array, states: list[Array]) -> list[Array]:
        entering, leaving, kept, fresh = np.split(data + again, 4)
        holes = np.zeros((3, len(entering))) if self.peepholes is None else np.split(self.peepholes, 3)
        entering = self.act(0, entering + holes[0] * states[1])
        kept = 1 - entering if self.layer.input_forget else self.act(0, kept + holes[2] * states[1])
        cell = kept * states[1] + entering * self.act(1, fresh)
        return [self.act(0, leaving + holes[1] * cell) * self.act(2, cell), cell]

    def gru(self, data: Array, again: Array, states: list[Array]) -> list[Array]:
        (hidden,), size = states, len(states[0])
        again = again + (0 if self.bias is None else self.bias)
        update, reset = np.split(self.act(0, (data + again)[: 2 * size]), 2)
        own = (
            (reset * hidden) @ self.weight[:, 2 * size :] if self.bias is None else reset * again[2 * size :]
        )
        return [(1 - update) * self.act(1, data[2 * size :] + own) + update * hidden]


def assert_computed(
    layer: Recurrence,
    hidden: int,
    *optional: str,
    batch: int = 3,
    processor: Processor = ARM,
    any_batch: bool = False,
) -> None:
    length, width = 4, layer.gates * hidden
    directions = len(layer.backwards)
    data, weight = random(length, batch, directions * width), random(directions, hidden, width) / 4
    shapes = {
        "hidden": (directions, batch, hidden),
        "cell": (directions, batch, hidden),
        "bias": (directions, width),
        "peepholes": (directions, 3 * hidden),
    }
    given = {name: random(*shapes[name]) for name in optional if name in shapes}
    if "lengths" in optional:
        given["lengths"] = RANDOM.integers(0, length + 1, batch).astype("int32")
    bias, holes = given.get("bias"), given.get("peepholes")
    stored = packed(weight)
    arrays = [data, stored, *given.values()]
    symbol = tirx.Var("batch", "int64")
    axes = {"hidden": 1, "cell": 1, "lengths": 0, "projected": 1}
    shapes_of = [[tirx.IntImm("int64", size) for size in array.shape] for array in arrays]
    for shape, name in zip(shapes_of, ["projected", "weight", *given], strict=True):
        if any_batch and name in axes:
            shape[axes[name]] = symbol
    tensors = [te.placeholder(shape, str(one.dtype)) for shape, one in zip(shapes_of, arrays, strict=True)]
    results = recurrent(layer, *tensors[:2], dict(zip(given, tensors[2:], strict=True)), processor=processor)
    function = te.create_prim_func([*tensors, *results]).with_attr("global_symbol", "main")
    compiled = tvm.compile(function, "llvm")
    sizes = [(length, directions, batch, hidden), *[(directions, batch, hidden)] * len(layer.states)]
    found = [tvm.runtime.tensor(np.full(size, np.nan, "float32")) for size in sizes]
    compiled["main"](*map(tvm.runtime.tensor, arrays), *found)

    limits = given.get("lengths", np.full(batch, length))
    states = [given.get(name, np.zeros(shapes[name], "float32")).copy() for name in layer.states]
    result = np.zeros((length, directions, batch, hidden), "float32")
    for index, row in np.ndindex(directions, batch):
        own_bias, own_holes = (None if each is None else each[index] for each in (bias, holes))
        direction = Direction(layer, index, weight[index], own_bias, own_holes)
        own = [state[index, row] for state in states]
        for step in range(length)[::-1] if layer.backwards[index] else range(length):
            if step < limits[row]:
                part = data[step, row, index * width : (index + 1) * width]
                own = direction.step(part, own)
                result[step, index, row] = own[0]
        for state, last in zip(states, own, strict=True):
            state[index, row] = last
    for ours, wanted in zip(found, [result, *states], strict=True):
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True], ids=["sequences", "steps"])
@pytest.mark.parametrize("hidden", [3, 16, 20])
@pytest.mark.parametrize(("kind", "biased"), [("LSTM", False), ("GRU", False), ("GRU", True), ("RNN", False)])
def test_numbers(
    kind: Kind, biased: bool, hidden: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "SHARED_BYTES", 0 if shared else 1 << 30)
    layer = Recurrence(kind, (False, True))
    given = [*layer.states, "lengths", *(["bias"] if biased else [])]
    assert_computed(layer, hidden, *given, processor=replace(ARM, threads=4))


@pytest.mark.parametrize("name", NAMES)
def test_activations(name: str) -> None:
    """Another one in the second direction."""
    chosen = Activation(name, 0.5, 0.25)
    assert_computed(Recurrence("LSTM", (False, True), ((SIGMOID, chosen, TANH), (SIGMOID, TANH, chosen))), 5)


@pytest.mark.parametrize("optional", [(), ("hidden",), ("cell", "peepholes"), ("peepholes", "lengths")])
@pytest.mark.parametrize("changes", [{}, {"clip": 0.5}, {"input_forget": True}])
def test_variants_of_an_lstm(changes: dict[str, Any], optional: tuple[str, ...]) -> None:
    assert_computed(Recurrence("LSTM", (True,), **changes), 6, *optional)


@pytest.mark.parametrize("optional", [(), ("bias",)])
def test_a_clipped_gru_from_nothing(optional: tuple[str, ...]) -> None:
    assert_computed(Recurrence("GRU", (False,), clip=0.25), 6, *optional)


@pytest.mark.parametrize(("hidden", "parts", "lanes"), [(64, 4, 16), (50, 4, 16), (5, 2, 4), (1, 1, 1)])
def test_vectors_of_columns_lie_in_one_piece(hidden: int, parts: int, lanes: int) -> None:
    """The last of a gate begins in the one before where it would end behind the gate."""
    weight = random(2, hidden, 3 * hidden)
    stored = packed(weight)
    assert stored.shape == (2, parts, hidden, 3, lanes)
    np.testing.assert_array_equal(stored[1, -1, 0, 2], weight[1, 0, -lanes:])
    np.testing.assert_array_equal(stored[1, 0, 0, 1], weight[1, 0, hidden : hidden + lanes])


def test_a_computed_weight_is_packed_alike() -> None:
    weight = random(2, 20, 60)
    tensor = te.placeholder(weight.shape, "float32")
    function = te.create_prim_func([tensor, pack(tensor)]).with_attr("global_symbol", "main")
    compiled = tvm.compile(function, "llvm")
    stored = packed(weight)
    found = tvm.runtime.tensor(np.zeros_like(stored))
    compiled["main"](tvm.runtime.tensor(weight), found)
    np.testing.assert_array_equal(found.numpy(), stored)


@pytest.mark.parametrize("batch", [2, 13])
@pytest.mark.parametrize("shared", [False, True], ids=["sequences", "steps"])
@pytest.mark.parametrize(
    ("processor", "threads"), [(ARM, 4), (SHORT, 1), (LONG, 4)], ids=["arm", "short", "long"]
)
def test_groups_of_sequences(
    batch: int, shared: bool, threads: int, processor: Processor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a batch that is known, in so many groups as there are threads or more."""
    monkeypatch.setattr(layers, "SHARED_BYTES", 0 if shared else 1 << 30)
    layer = Recurrence("GRU", (True, False))
    assert_computed(
        layer, 16, "hidden", "lengths", batch=batch, processor=replace(processor, threads=threads)
    )
    assert_computed(layer, 16, "bias", batch=batch, processor=processor, any_batch=True)
