"""What nvcc makes of all kernels of a network, on the machine that runs PTX."""

import numpy as np
import onnxruntime
import pytest
from ptx_cases import run_ptx
from simulated_network import SimulatedNetwork

from relay_layout import models
from topi_ext.cuda.codegen.nvcc import find_nvcc

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


def blocks() -> models.Network:
    """Convolutions with the activations that networks have, pooling, resizing, a squeeze block and a
    classifier.
    """
    builder = models.NetworkBuilder("blocks")
    image = builder.input("input", (1, 8, 9, 8))
    first = builder.hard_swish(builder.convolution(image, "first", 16, 3, padding=1, bias=True), "hard_swish")
    deep = builder.silu(builder.convolution(first, "deep", 16, 3, padding=1, groups=16), "silu")
    squeezed = builder.global_average_pool(deep, "squeeze")
    gate = builder.hard_sigmoid(builder.convolution(squeezed, "gate", 16, 1, bias=True), "hard_sigmoid")
    scaled = builder.add(first, builder.multiply(deep, gate, "scaled"), "residual")
    half = builder.max_pool(scaled, "half", 3, strides=2, padding=1)
    double = builder.resize(half, "double", 2, "nearest")
    again = builder.max_pool(builder.gelu(double, "gelu"), "again", 2, strides=2)
    both = builder.concatenate([half, again], "both")
    pooled = builder.flatten(builder.global_average_pool(both, "pooled"), "flat")
    return builder.build({"output": builder.sigmoid(builder.dense(pooled, "classes", 10), "sigmoid")})


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cuda-sm_75", "cuda-sm_90"])
@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 5e-3), ("fp32", 5e-6)])
def test_every_kernel_of_a_network(precision: str, tolerance: float, target: str) -> None:
    network = blocks()
    image = np.random.default_rng(0).standard_normal((1, 8, 9, 8)).astype("float32")
    reference = onnxruntime.InferenceSession(
        models.to_onnx(network).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (expected,) = reference.run(None, {"input": image})
    simulated = SimulatedNetwork(models.to_relax(network), target, precision, run=run_ptx)
    (found,) = simulated.run(image)
    assert float(np.abs(found - expected).max() / np.abs(expected).max()) < tolerance
