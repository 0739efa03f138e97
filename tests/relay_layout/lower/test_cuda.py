"""Networks for CUDA, as far as they can be followed without a GPU."""

import json
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout import models
from relay_layout.errors import TargetError
from relay_layout.frontend import load_model
from relay_layout.layout_request import LayoutRequest
from relay_layout.lower.kernel_calls import KernelCall
from relay_layout.lower.legalize.cuda_integers import integer_call
from relay_layout.lower.library.device_code import stored_code
from relay_layout.lower.lowering_for import lowering_for
from relay_layout.lower.memory.weights import lift_weights
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.schedule import Kernel, schedule_functions
from relay_layout.lower.stages import lower, plan_memory
from relay_layout.report.kernels import described_calls
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import CudaTarget, resolve_target
from tests.relax_modules import main_of
from topi_ext.cuda.codegen.approximations import APPROXIMATE
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.workloads.convolution import ConvolutionWorkload

Lowered = tuple[CudaTarget, tvm.IRModule, list[Kernel]]


@pytest.fixture(scope="module", params=["fp16", "tf32", "fp32"])
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


def test_a_product_that_cannot_be_scheduled_is_reported_as_plain_loops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("topi_ext.rules.cuda.schedule_product", lambda *arguments: None)
    target = resolve_target("cuda-sm_80", precision="fp16")
    builder = models.NetworkBuilder("small")
    found = builder.convolution(builder.input("input", (1, 32, 10, 10)), "conv", 48, 3, bias=True)
    module = canonicalize(models.to_relax(builder.build({"output": found})))
    module, _ = convert_layout(module, LayoutRequest.parse("NHWC"), target)
    with target.tvm_target:
        module = tvm.transform.Sequential([*legalize_passes(target), *fuse_passes(target)])(module)
        _, kernels = schedule_functions(module, target)
    (call,) = [
        call
        for call in described_calls([KernelCall(kernel.name, (), 0) for kernel in kernels], kernels, {})
        if call["operator"] == "gemm_conv2d"
    ]
    assert (call["source"], call["algorithm"], call["knobs"]) == ("fallback", "", None)
    assert call["workload"] is not None and call["workload"]["out_channels"] == 48


@pytest.mark.parametrize("dtype", ["int32", "float64", "float16"])
def test_products_of_other_types_keep_them(dtype: str) -> None:
    """A product of two rows, one of many, and a convolution."""
    target = resolve_target("cuda-sm_80")
    few, many, image = (
        relax.Var(f"data{place}", relax.TensorType(shape, dtype))
        for place, shape in enumerate([(2, 8), (64, 8), (1, 9, 7, 8)])
    )
    matrix = relax.const(np.ones((8, 16)), dtype)
    kernel = relax.const(np.ones((16, 3, 3, 8)), dtype)
    with main_of(few, many, image) as builder:
        found = [
            builder.emit(relax.op.matmul(few, matrix)),
            builder.emit(relax.op.matmul(many, matrix)),
            builder.emit(relax.op.nn.conv2d(image, kernel, data_layout="NHWC", kernel_layout="OHWI")),
        ]
        builder.result = relax.Tuple(found)
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(builder.finalize())
    assert [str(field.dtype) for field in module["main"].ret_ty.fields] == [dtype] * 3


@pytest.mark.parametrize("dtype", ["float32", "uint8"])
@pytest.mark.parametrize(("batch", "name"), [(65535, "depthwise_conv2d"), (65536, "conv2d")])
def test_depthwise_convolutions_of_more_images_than_a_grid_has_blocks_are_loops(
    batch: int, name: str, dtype: str
) -> None:
    """The kernel has a block for each image along the third axis."""
    target = resolve_target("cuda-sm_80")
    assert isinstance(target, CudaTarget)
    image = relax.Var("image", relax.TensorType((batch, 4, 4, 8), dtype))
    weight = np.ones((8, 1, 3, 3), "int8")
    geometry = {"kernel": (3, 3), "strides": (1, 1), "padding": (1, 1, 1, 1), "dilation": (1, 1)}
    layouts = {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NHWC"}
    work = ConvolutionWorkload(
        batch, 8, 8, 4, 4, **geometry, groups=8, **layouts, dtype=dtype, out_dtype="int32"
    )
    plain = relax.const(weight.transpose(0, 2, 3, 1).astype("float32"))
    with main_of(image) as builder:
        if dtype == "float32":
            call = relax.op.nn.conv2d(image, plain, padding=1, groups=8, **layouts)
        else:
            call = integer_call(builder, work, image, weight, 0, target)
        builder.result = call
    with target.tvm_target:
        module = tvm.transform.Sequential(legalize_passes(target))(builder.finalize())
    names = [variable.name_hint for variable in module.get_global_vars()]
    assert [found for found in names if found.removesuffix("_int8") == name], names


def test_tensors_between_kernels_have_the_precision(network: Lowered) -> None:
    target, module, _ = network
    main = module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]
    stored = {str(binding.var.ty.dtype) for binding in bindings[:-1] if "slices" not in str(binding.value)}
    assert stored == ({"float16"} if target.precision == "fp16" else {"float32"})
    assert str(bindings[-1].var.ty.dtype) == str(main.params[0].ty.dtype) == "float32"


def test_arithmetic_is_approximate_where_tensors_or_products_are_rounded(network: Lowered) -> None:
    target, module, _ = network
    functions = [func for _, func in module.functions_items() if isinstance(func, tvm.tirx.PrimFunc)]
    assert {bool(func.attrs.get(APPROXIMATE)) for func in functions} == {target.precision != "fp32"}


def test_a_call_is_one_graph(network: Lowered) -> None:
    target, module, kernels = network
    with target.tvm_target:
        (launch,) = lowering_for(target).launch_passes()
        # Before the passes that follow make calls of the virtual machine of it.
        module = launch(plan_memory(module, target))
    launched = module["main_cuda_graph_capture"].script()
    assert module["main"].script().count("cuda_graph.run_or_capture") == 1
    assert not [kernel.name for kernel in kernels if kernel.workload and f"{kernel.name}(" not in launched]


def test_unknown_architectures_and_precisions_are_refused() -> None:
    with pytest.raises(TargetError, match=r"^target 'cuda-sm_61' is not known; use one of cuda-sm_70, "):
        resolve_target("cuda-sm_61")
    with pytest.raises(
        TargetError, match=r"^precision 'fp8' is not known; use one of fp16, bf16, tf32, fp32$"
    ):
        resolve_target("cuda-sm_80", precision="fp8")


def test_wgmma_can_be_turned_off_where_it_is() -> None:
    target = resolve_target("cuda-sm_90+nowgmma", precision="fp16")
    assert isinstance(target, CudaTarget)
    assert (target.multiprocessor.arch, target.manifest()["arch"]) == ("sm_90", "sm_90")
    work = GemmConvolution(32, 28, 28, 128, 128, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float16")
    assert target.kernels.choose(work).knobs.instruction == "mma"
    assert resolve_target("cuda-sm_90").kernels.choose(work).knobs.instruction == "wgmma"
    with pytest.raises(
        TargetError, match=r"^target 'cuda-sm_80\+nowgmma' is not known; use one of .*sm_90\+"
    ):
        resolve_target("cuda-sm_80+nowgmma")


def test_bulk_copies_can_be_turned_off_where_they_are() -> None:
    target = resolve_target("cuda-sm_90+notma", precision="fp16")
    assert isinstance(target, CudaTarget)
    assert (target.multiprocessor.has_bulk_copies, target.multiprocessor.wgmma_gain > 0) == (False, True)
    assert target.manifest() == resolve_target("cuda-sm_90", precision="fp16").manifest()
    with pytest.raises(TargetError, match=r"^target 'cuda-sm_89\+notma' is not known; use one of .*sm_90\+"):
        resolve_target("cuda-sm_89+notma")


def test_tf32_needs_tensor_cores_that_have_it() -> None:
    with pytest.raises(TargetError) as raised:
        resolve_target("cuda-sm_75", precision="tf32")
    assert str(raised.value) == "precision 'tf32' needs cuda-sm_80 or later, not cuda-sm_75; use fp16 or fp32"


def calls_of(precision: str) -> list[KernelCall]:
    target = resolve_target("cuda-sm_80", precision=precision)
    module = canonicalize(load_model("resnet18", input_shapes={"input": (1, 3, 32, 32)}))
    module, _ = convert_layout(module, LayoutRequest.parse("NHWC"), target)
    return lower(canonicalize(module), target, lambda line: None).calls


def test_calls_of_half_precision_have_operators_and_half_the_bytes() -> None:
    """Functions have other names there."""
    half, whole = calls_of("fp16"), calls_of("fp32")
    assert [call.function for call in half] != [call.function for call in whole]

    assert all(call.operators and call.bytes for call in [*half, *whole])
    # Of a sum over slices of the depth it depends on the precision whether there is one.
    bytes_of = [
        {call.operators: call.bytes for call in calls if "_s" not in call.function} for calls in (half, whole)
    ]
    both = bytes_of[0].keys() & bytes_of[1].keys()
    assert len(both) > 5
    assert all(bytes_of[0][call] < bytes_of[1][call] for call in both)
    assert any(bytes_of[0][call] * 2 == bytes_of[1][call] for call in both)


def small_network() -> tvm.IRModule:
    """A convolution with a bias."""
    builder = models.NetworkBuilder("small")
    image = builder.input("input", (1, 32, 10, 10))
    return models.to_relax(
        builder.build({"output": builder.convolution(image, "convolution", 32, 3, bias=True)})
    )


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_an_artifact_holds_machine_code_and_reports_as_on_a_cpu(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    targets = ["native", "cuda-sm_80"]
    compiled = relay_layout.compile(small_network(), target=targets, precision="fp16", report=report)
    compiled.save(tmp_path / "net.rla")
    library = tmp_path / "library.so"
    library.write_bytes(compiled.contents[1].library)
    (code,) = stored_code(library).values()
    assert code.startswith(b"\x7fELF")
    cpu, gpu = json.loads(report.read_text())["targets"]
    assert gpu["target"]["arch"] == "sm_80"
    # What is computed does not depend on the target; which kernel does it, does.
    operators = [[name for call in found["calls"] for name in call["operators"]] for found in (cpu, gpu)]
    assert {"output_unbiased", "output"} <= set(operators[0]) & set(operators[1])
    assert gpu["memory"]["storage_bytes"] > 0
