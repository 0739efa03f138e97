"""Networks for CUDA, as far as they can be followed without a GPU."""

import pytest
import tvm

from relay_layout.canonicalize import canonicalize
from relay_layout.errors import TargetError
from relay_layout.frontend import load_model
from relay_layout.lower.cuda_graph import capture
from relay_layout.lower.passes import fuse_passes, legalize_passes, lower_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.weights import lift_weights
from relay_layout.request import LayoutRequest
from relay_layout.targets import CudaTarget, resolve_target
from relay_layout.transform import convert_layout

Lowered = tuple[CudaTarget, tvm.IRModule, list[Kernel]]


@pytest.fixture(scope="module", params=["fp16", "fp32"])
def network(request: pytest.FixtureRequest) -> Lowered:
    """MobileNetV2, small, down to scheduled functions."""
    target = resolve_target("cuda-sm_80", precision=request.param)
    assert isinstance(target, CudaTarget)
    module = canonicalize(load_model("mobilenet_v2", input_shapes={"input": (1, 3, 32, 32)}))
    module, _ = convert_layout(module, LayoutRequest.parse("auto"), target)
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(canonicalize(module))
        module, _ = lift_weights(module)
        module = tvm.transform.Sequential(fuse_passes(target))(module)
        module, kernels = schedule_functions(module, target)
    return target, module, kernels


def test_every_convolution_has_its_kernel(network: Lowered) -> None:
    _, _, kernels = network
    assert [kernel.name for kernel in kernels if kernel.source == "fallback"] == []
    assert {kernel.operator for kernel in kernels if kernel.source == "default"} == {
        "depthwise_conv2d_nhwc",
        "gemm_conv2d",
    }


def test_tensors_between_kernels_have_the_precision(network: Lowered) -> None:
    target, module, _ = network
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    stored = {str(binding.var.ty.dtype) for binding in bindings[:-1] if "slices" not in str(binding.value)}
    assert stored == ({"float16"} if target.precision == "fp16" else {"float32"})
    assert str(bindings[-1].var.ty.dtype) == str(main.params[0].ty.dtype) == "float32"


def test_a_call_is_one_graph(network: Lowered) -> None:
    target, module, kernels = network
    with target.tvm_target:
        passes = [found for found in lower_passes(workspace=True) if found.info.name != "KillAfterLastUse"]
        for found in passes:
            if found.info.name == "LowerRuntimeBuiltin":
                break
            module = found(module)
        module = capture(module, tvm.transform.PassContext.current())
    launched = module["main_cuda_graph_capture"].script()
    assert module["main"].script().count("cuda_graph.run_or_capture") == 1
    assert not [kernel.name for kernel in kernels if kernel.workload and f"{kernel.name}(" not in launched]


def test_unknown_architectures_and_precisions_are_refused() -> None:
    with pytest.raises(TargetError, match=r"^target 'cuda-sm_61' is not known; use one of cuda-sm_70, "):
        resolve_target("cuda-sm_61")
    with pytest.raises(TargetError, match=r"^precision 'fp8' is not known; use one of fp16, fp32$"):
        resolve_target("cuda-sm_80", precision="fp8")
