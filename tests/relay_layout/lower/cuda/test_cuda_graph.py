"""A network as one CUDA graph, run by TVM's virtual machine on the CPU: launches instead of a graph."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tvm_ffi

import relay_layout
from relay_layout import models
from relay_layout.lower.as_pass import as_pass
from relay_layout.lower.cpu_lowering import CpuLowering
from relay_layout.lower.cuda_graph import capture

RUN_OR_CAPTURE = "vm.builtin.cuda_graph.run_or_capture"


@pytest.fixture
def recorded() -> Iterator[list[int]]:
    """Numbers of the graphs that are asked for; each is launched twice, as TVM does to record it."""
    found: list[int] = []
    invoke = tvm_ffi.get_global_func("vm.builtin.invoke_closure")

    def launch(machine: Any, function: Any, arguments: Any, number: int) -> Any:
        found.append(number)
        invoke(machine, function, *arguments)
        return invoke(machine, function, *arguments)

    previous = tvm_ffi.get_global_func(RUN_OR_CAPTURE, allow_missing=True)
    tvm_ffi.register_global_func(RUN_OR_CAPTURE, launch, override=True)
    yield found
    if previous is None:
        tvm_ffi.registry.remove_global_func(RUN_OR_CAPTURE)
    else:
        tvm_ffi.register_global_func(RUN_OR_CAPTURE, previous, override=True)


def test_a_graph_without_results_of_its_own_runs(
    recorded: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Everything that is computed lies in memory of the caller's: nothing is left for a graph to return."""
    builder = models.NetworkBuilder("two")
    found = builder.input("input", (1, 8, 6, 6))
    found = builder.silu(builder.convolution(found, "first", 16, 3, bias=True), "first_silu")
    network = builder.build({"output": builder.convolution(found, "second", 8, 1, bias=True)})
    data = np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype("float32")
    results = []
    for graph in (False, True):
        with monkeypatch.context() as patch:
            passes = [as_pass(capture)] if graph else []
            patch.setattr(CpuLowering, "launch_passes", lambda lowering, passes=passes: passes)
            relay_layout.compile(models.to_relax(network)).save(tmp_path / "two.rla")
        session = relay_layout.load(tmp_path / "two.rla")
        results += [session.run({"input": data})["output"] for _ in range(2)]
    assert recorded == [0, 0]
    for result in results[1:]:
        np.testing.assert_array_equal(result, results[0])
