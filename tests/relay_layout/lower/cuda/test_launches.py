"""How many kernels parts of networks take on a GPU, and what these compute on a simulated one."""

import numpy as np
import onnxruntime
import pytest
import tvm
from gpu_cases import lowered
from simulated_network import SimulatedNetwork
from tvm import relax

from relay_layout import models
from relay_layout.models.squeeze_excitation import squeeze_excite
from tests.relax_modules import main_of
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS


def squeeze_network(batch: int) -> models.Network:
    """A convolution, a squeeze block of it, and the mean of that through a dense layer."""
    builder = models.NetworkBuilder("squeeze")
    image = builder.input("input", (batch, 16, 9, 7))
    found = builder.silu(builder.convolution(image, "first", 24, 1, bias=True), "first_silu")
    options = {"activation": builder.silu, "gate": builder.sigmoid, "gain": 1.0}
    found = squeeze_excite(builder, found, "squeeze", 6, **options)
    found = builder.flatten(builder.global_average_pool(found, "mean"), "flat")
    return builder.build({"output": builder.dense(found, "dense", 10)})


def calls_of(module: tvm.IRModule) -> list[str]:
    names = []
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, relax.Call) and binding.value.op.name == "relax.call_tir":
                names.append(str(binding.value.args[0].name_hint))
    return names


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("batch", [1, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_a_squeeze_block_is_four_kernels(batch: int, precision: str) -> None:
    """A mean, two products with what follows them, and the product with the image."""
    network = squeeze_network(batch)
    data = np.random.default_rng(0).standard_normal((batch, 16, 9, 7)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": data})
    simulated = SimulatedNetwork(models.to_relax(network), "cuda-sm_80", precision)
    (found,) = simulated.run(data)
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error < (3e-3 if precision == "fp16" else 3e-6)
    assert not [kernel.name for kernel in simulated.kernels.values() if kernel.source == "fallback"]
    calls = calls_of(simulated.plain)
    assert not [name for name in calls if "reshape" in name]
    if batch <= 4:
        # Before them a transpose and the convolution, after them a mean and the dense layer.
        assert len(calls) == 2 + 4 + 2, calls


def test_layer_norm_and_softmax_are_kernels_of_ours() -> None:
    data = relax.Var("data", relax.TensorType((2, 5, 48), "float32"))
    scale, shift = np.random.default_rng(1).standard_normal((2, 48)).astype("float32")
    with main_of(data) as builder:
        constants = relax.const(scale), relax.const(shift)
        found = builder.emit(relax.op.nn.layer_norm(data, *constants, axes=[-1]))
        builder.result = relax.op.nn.softmax(found)
    feed = np.random.default_rng(0).standard_normal((2, 5, 48)).astype("float32")
    simulated = SimulatedNetwork(builder.finalize(), "cuda-sm_80")
    (found,) = simulated.run(feed)
    centred = feed - feed.mean(-1, keepdims=True, dtype="float64")
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    exact = np.exp(scaled * scale + shift)
    np.testing.assert_allclose(found, exact / exact.sum(-1, keepdims=True), rtol=1e-4)
    kernels = [simulated.scheduled[kernel.name].script() for kernel in simulated.kernels.values()]
    assert len(kernels) == 2
    assert all("T.vectorized(T.int64(4))" in kernel for kernel in kernels)


def test_rows_of_float16_are_copied_as_they_are() -> None:
    """Asynchronously, not read, made float32, rounded again and stored by every thread."""
    data = relax.Var("data", relax.TensorType((2, 5, 32), "float32"))
    first, second = np.random.default_rng(1).standard_normal((2, 32, 32)).astype("float32")
    with main_of(data) as builder:
        found = builder.emit(relax.op.nn.relu(relax.op.matmul(data, relax.const(first))))
        builder.result = relax.op.matmul(found, relax.const(second))
    feed = np.random.default_rng(0).standard_normal((2, 5, 32)).astype("float32")
    simulated = SimulatedNetwork(builder.finalize(), "cuda-sm_80", "fp16")
    (found,) = simulated.run(feed)
    exact = np.maximum(feed @ first, 0) @ second
    assert np.abs(found - exact).max() / np.abs(exact).max() < 3e-3
    sm_80 = MULTIPROCESSORS["sm_80"]
    sources = [lowered(simulated.scheduled[name], sm_80).script() for name in calls_of(simulated.plain)]
    # The weight's, and of what no caller gives, which is float32 and is rounded on its way, the data's too.
    assert [source.count("cp_async") for source in sources] == [1, 2]
