"""Chains of functions that bind variables: compiled in a time that does not grow with their powers."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relax

import relay_layout
from tests.attention_graphs import Build, module_of

op = relax.op

IMAGE = np.random.default_rng(0).standard_normal((1, 8, 6, 6)).astype("float32")


def chain(around: Any) -> Build:
    """Ten hyperbolic tangents, each with a sum, of what ``around`` makes of the data, or of the data."""

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        value = emit(around(given["data"]))
        for _ in range(10):
            value = emit(op.add(emit(op.tanh(value)), relax.const(0.5, "float32")))
        return value

    return build


def convolved(data: Any) -> Any:
    return op.nn.conv2d(data, relax.const(np.eye(8, dtype="float32").reshape(8, 8, 1, 1)))


@pytest.mark.parametrize(
    "around", [op.nn.relu, convolved, op.negative], ids=["relu", "convolution", "negative"]
)
def test_a_chain_of_ten(around: Any, tmp_path: Path) -> None:
    module = module_of(chain(around), data=IMAGE.shape)
    start = time.process_time()
    relay_layout.compile(module).save(tmp_path / "chain.rla")
    # With all of them in one function it would be years.
    assert time.process_time() - start < 60
    wanted = {op.nn.relu: np.maximum(IMAGE, 0), op.negative: -IMAGE}.get(around, IMAGE)
    for _ in range(10):
        wanted = np.tanh(wanted) + np.float32(0.5)
    (found,) = relay_layout.load(tmp_path / "chain.rla").run({"data": IMAGE}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_short_chains_stay_one_kernel(tmp_path: Path) -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        return emit(op.tanh(emit(op.sigmoid(emit(op.tanh(emit(op.nn.relu(given["data"]))))))))

    compiled = relay_layout.compile(module_of(build, data=IMAGE.shape))
    assert len(compiled.manifest.builds[0].report["calls"]) == 1
