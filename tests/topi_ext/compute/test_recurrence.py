"""Recurrent layers beside the equations of ONNX, with threads that share sequences or the steps of each."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import te

from topi_ext.compute import recurrence
from topi_ext.compute.recurrence import Kind, packed, recurrent

Array = np.ndarray
RANDOM = np.random.default_rng(0)
GATES: dict[Kind, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}


def random(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype("float32")


def sigmoid(value: Array) -> Array:
    return 1 / (1 + np.exp(-value))


def lstm(data: Array, states: list[Array], weight: Array, bias: Array | None) -> list[Array]:
    entering, leaving, kept, fresh = np.split(data + states[0] @ weight, 4)
    cell = sigmoid(kept) * states[1] + sigmoid(entering) * np.tanh(fresh)
    return [sigmoid(leaving) * np.tanh(cell), cell]


def gru(data: Array, states: list[Array], weight: Array, bias: Array | None) -> list[Array]:
    (hidden,), size = states, len(states[0])
    again = hidden @ weight + (0 if bias is None else bias)
    update, reset = np.split(sigmoid(data + again)[: 2 * size], 2)
    last = (reset * hidden) @ weight[:, 2 * size :] if bias is None else reset * again[2 * size :]
    return [(1 - update) * np.tanh(data[2 * size :] + last) + update * hidden]


def rnn(data: Array, states: list[Array], weight: Array, bias: Array | None) -> list[Array]:
    return [np.tanh(data + states[0] @ weight)]


STEPS: dict[Kind, Callable[..., list[Array]]] = {"LSTM": lstm, "GRU": gru, "RNN": rnn}


@pytest.mark.parametrize("shared", [False, True], ids=["sequences", "steps"])
@pytest.mark.parametrize("hidden", [3, 16, 20])
@pytest.mark.parametrize(("kind", "biased"), [("LSTM", False), ("GRU", False), ("GRU", True), ("RNN", False)])
def test_numbers(
    kind: Kind, biased: bool, hidden: int, shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recurrence, "SHARED_BYTES", 0 if shared else 1 << 30)
    length, batch, width = 4, 3, GATES[kind] * hidden
    data, weight = random(length, batch, 2 * width), random(2, hidden, width) / 4
    states = [random(2, batch, hidden) for _ in range(2 if kind == "LSTM" else 1)]
    bias = random(2, width) if biased else None
    limits = np.array([4, 2, 3], "int32")
    stored = packed(kind, weight, reset_first=not biased)
    given = [data, stored, *states, limits, *([bias] if bias is not None else [])]
    tensors = [te.placeholder(array.shape, str(array.dtype)) for array in given]
    layer = recurrent(
        kind,
        *tensors[:2],
        tensors[2 : 2 + len(states)],
        backwards=[False, True],
        lengths=tensors[2 + len(states)],
        bias=tensors[-1] if biased else None,
    )
    compiled = tvm.compile(te.create_prim_func([*tensors, *layer]).with_attr("global_symbol", "main"), "llvm")
    found = [tvm.runtime.tensor(np.full([int(e) for e in each.shape], np.nan, "float32")) for each in layer]
    compiled["main"](*map(tvm.runtime.tensor, given), *found)

    result = np.zeros((length, 2, batch, hidden), "float32")
    for direction, row in np.ndindex(2, batch):
        own = [state[direction, row] for state in states]
        order = range(length) if direction == 0 else range(length)[::-1]
        for step in order:
            if step < limits[row]:
                part = data[step, row, direction * width : (direction + 1) * width]
                own = STEPS[kind](part, own, weight[direction], None if bias is None else bias[direction])
                result[step, direction, row] = own[0]
        for state, last in zip(states, own, strict=True):
            state[direction, row] = last
    for ours, wanted in zip(found, [result, *states], strict=True):
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "reset_first", "columns"), [("LSTM", False, 64), ("GRU", False, 16), ("GRU", True, 16)]
)
def test_blocks_of_columns_lie_in_one_piece(kind: Kind, reset_first: bool, columns: int) -> None:
    weight = random(2, 16, GATES[kind] * 16)
    stored = packed(kind, weight, reset_first=reset_first)
    assert stored.shape == (2, GATES[kind] * 16 // columns, 16, columns)
    np.testing.assert_array_equal(stored[1, -1, 3], weight[1, 3, -columns:])
