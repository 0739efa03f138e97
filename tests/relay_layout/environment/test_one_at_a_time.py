"""Threads that compile take turns."""

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

import relay_layout
from relay_layout import relay
from relay_layout.environment import one_at_a_time as one_at_a_time_module
from relay_layout.environment.one_at_a_time import one_at_a_time
from relay_layout.frontend import from_relay
from relay_layout.partition import guard_partitions, partition


def model() -> onnx.ModelProto:
    names = [f"v{place}" for place in range(60)]
    nodes = [helper.make_node("Relu", [a], [b]) for a, b in pairwise(names)]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 4, 4]) for name in names]
    graph = helper.make_graph(nodes, "chain", [value[0]], [value[-1]])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])


def test_threads_import_at_once() -> None:
    proto = model()
    with ThreadPoolExecutor(4) as pool:
        modules = list(pool.map(relay_layout.from_onnx, [proto] * 12))
    assert len({module.script() for module in modules}) == 1


def test_a_function_may_call_another_one() -> None:
    outer = one_at_a_time(lambda: relay_layout.from_onnx(model()))
    assert outer() is not None


def test_a_child_compiles_though_its_parent_was_at_it() -> None:
    begun, end = threading.Event(), threading.Event()

    @one_at_a_time
    def work() -> None:
        begun.set()
        end.wait()

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait()
    try:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            relay_layout.from_onnx(model())
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize(
    "function",
    [
        relay_layout.compile,
        relay_layout.convert,
        relay_layout.explain,
        relay_layout.from_tflite,
        relay_layout.from_torch,
        from_relay,
        guard_partitions,
        partition,
        relay.build,
    ],
)
def test_every_way_in_takes_turns(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What they are given here is refused, once it is their turn."""
    turns: list[str] = []

    class Turns:
        def __enter__(self) -> None:
            turns.append("taken")

        def __exit__(self, *raised: object) -> None:
            turns.append("left")

    monkeypatch.setattr(one_at_a_time_module, "_lock", Turns())
    with pytest.raises(Exception):  # noqa: B017
        function()
    assert turns == ["taken", "left"]


def test_threads_convert_at_once() -> None:
    """By the pass, as programs of TVM's do."""
    module = relay_layout.from_onnx(model())
    convert = relay_layout.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with ThreadPoolExecutor(4) as pool:
        converted = list(pool.map(convert, [module] * 12))
    assert len({each.script() for each in converted}) == 1
