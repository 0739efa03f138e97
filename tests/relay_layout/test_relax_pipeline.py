"""``relay_layout.pipeline`` beside what :func:`relay_layout.compile` does."""

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.errors import TargetError
from relay_layout.layout_request import LayoutRequest
from relay_layout.lower.stages import lower
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.conversion import convert_network
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

TARGET = resolve_target("x86-64-v3", threads=2, shipped_records=False)


def functions_of(module: tvm.IRModule) -> set[str]:
    return {
        str(variable.name_hint)
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def module_of(weight: np.ndarray) -> tvm.IRModule:
    """A convolution with a bias."""
    image = relax.Var("image", relax.TensorType((1, 16, 9, 9), "float32"))
    with main_of(image) as builder:
        value = builder.emit(relax.op.nn.conv2d(image, relax.const(weight), padding=1))
        bias = relax.const(np.ones((1, 32, 1, 1), "float32"))
        builder.result = builder.emit(relax.op.add(value, bias))
    return builder.finalize()


def test_it_makes_the_kernels_that_compilation_makes() -> None:
    module = module_of(np.ones((32, 16, 3, 3), "float32"))
    piped = relay_layout.pipeline(TARGET, desired_layout="NHWC")(module)
    converted, _ = convert_network(module, LayoutRequest.parse("NHWC"), TARGET)
    compiled = lower(canonicalize(converted), TARGET).module
    assert functions_of(piped) == functions_of(compiled) == {"fused_conv2d_add", "transpose", "transpose1"}


def test_gpus_are_refused() -> None:
    with pytest.raises(TargetError) as raised:
        relay_layout.pipeline("cuda-sm_90")
    assert str(raised.value) == (
        "target cuda-sm_90: pipeline() is for CPUs, whose code stock TVM generates; compile for a GPU with "
        "relay_layout.compile"
    )
