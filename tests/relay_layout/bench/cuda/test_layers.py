"""Layers as the benchmark measures them, as far as it goes without a GPU."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
import tvm

from relay_layout.bench.cuda import layers as cuda_layers
from relay_layout.bench.cuda.layers import LayerTime, layers, peak_share
from relay_layout.targets import CudaTarget, resolve_target
from topi_ext.chooser import KernelChooser
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.kernel import PRODUCT, SUM, compile_module, kernel_module, result_dtype
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.kernel_choice import KernelChoice

WORK = GemmConvolution(1, 7, 7, 64, 48, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float16")


def cuda(precision: str = "fp16") -> CudaTarget:
    target = resolve_target("cuda-sm_90", precision=precision)
    assert isinstance(target, CudaTarget)
    return target


def test_a_networks_layers_with_their_uses() -> None:
    found = layers("resnet18", 8, cuda())
    # Twenty convolutions and the classifier.
    assert sum(found.values()) == 21
    assert len(found) == 12
    assert {workload.dtype for workload in found} == {"float16"}


def test_few_rows_have_no_knobs_and_are_no_layers_to_tune() -> None:
    """The classifier of one image is a kernel for few rows."""
    assert sum(layers("resnet18", 1, cuda()).values()) == 20


def test_a_line_of_the_table() -> None:
    line = LayerTime(WORK, 3, 10.0, 9.0, 0.123)
    assert line.row() == "3x 1x7x7x64 -> 48 3x3 stride 1: 10.0, 9.0, 0.90, 12%"


def test_the_share_of_peak_counts_every_multiplication() -> None:
    # 132 multiprocessors, 2048 products a cycle by wgmma, 860 by mma.sync, 1.83 GHz.
    expected = 49 * 48 * 576 / (132 * 2048 * 1.83e3 * 2)
    assert peak_share(WORK, 2.0, cuda()) == pytest.approx(expected)
    warps = resolve_target("cuda-sm_90+nowgmma", precision="fp16")
    assert isinstance(warps, CudaTarget)
    assert peak_share(WORK, 2.0, warps) == pytest.approx(expected * 2048 / 860)


def test_the_share_of_a_depthwise_layer_is_of_bandwidth() -> None:
    work = DepthwiseConvolution(1, 7, 7, 64, 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 64, "float16")
    # 3350 gigabytes a second.
    assert peak_share(work, 2.0, cuda()) == pytest.approx(2 * 49 * 64 * 2 / (3350e3 * 2))


def test_depthwise_layers_are_among_them() -> None:
    found = layers("mobilenet_v2", 1, cuda())
    depthwise = [work for work in found if isinstance(work, DepthwiseConvolution)]
    assert (len(depthwise), sum(found[work] for work in depthwise)) == (10, 17)


@pytest.mark.parametrize(
    ("knobs", "names"),
    [
        (GemmKnobs("fma", 32, 32, 16, 1, 2, 2), ["product"]),
        (GemmKnobs("fma", 32, 32, 16, 1, 2, 2, 3), ["product", "sum"]),
        (WinogradGemmKnobs(4, GemmKnobs("fma", 32, 32, 16, 1, 2, 2)), ["image", "product", "result"]),
    ],
)
def test_functions_hand_on_what_the_next_one_reads(
    knobs: GemmKnobs | WinogradGemmKnobs, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer as it is measured, on functions that look at their arguments alone."""
    work, made, called = replace(WORK, dtype="float32"), {}, []

    class Compiled:
        def __init__(self, module: tvm.IRModule, chip: object, known: object) -> None:
            made.update({name.name_hint: function for name, function in module.functions_items()})

        def __getitem__(self, name: str) -> Callable[..., None]:
            shapes = [tuple(map(int, parameter.shape)) for parameter in made[name].params]

            def function(*arguments: tvm.runtime.Tensor) -> None:
                assert [tuple(argument.shape) for argument in arguments] == shapes
                called.append((name, [argument.data_ptr() for argument in arguments]))

            return function

    monkeypatch.setattr(cuda_layers, "compile_module", Compiled)
    monkeypatch.setattr(KernelChooser, "choose", lambda self, work: KernelChoice(knobs, "tuned", 1.0))
    cuda_layers.our_layer(work, cuda("fp32"), tvm.cpu(), {})()
    assert [name for name, _ in called] == names
    for (_, first), (_, second) in pairwise(called):
        assert first[-1] == second[0]


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_kernels_of_split_depths_are_two_functions() -> None:
    chip = cuda().multiprocessor
    whole, split = (GemmKnobs("mma", 64, 16, 32, 4, 1, 3, slices) for slices in (1, 3))
    assert [found.name_hint for found in kernel_module(WORK, whole, chip).get_global_vars()] == [PRODUCT]
    module = kernel_module(WORK, split, chip)
    assert {found.name_hint for found in module.get_global_vars()} == {PRODUCT, SUM}
    assert compile_module(module, chip)[SUM] is not None
    assert result_dtype(WORK) == "float16"
