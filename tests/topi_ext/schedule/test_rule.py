"""What rules tell of the functions that they take."""

import pytest
from tvm import te, tirx, topi
from tvm.s_tir import Schedule
from tvm.target import Target
from tvm_ffi import structural_walk

from topi_ext.chooser import KernelChooser
from topi_ext.cuda.compute.depthwise import depthwise_conv2d
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.machine.processor import processor_of
from topi_ext.rules.cpu import cpu_rules
from topi_ext.rules.cuda import CudaRule, cuda_rules
from topi_ext.schedule.cpu.loops import LoopNest
from topi_ext.schedule.rule import Rule

CHIP = MULTIPROCESSORS["sm_80"]
CHOOSER = KernelChooser(CHIP, CHIP.gigahertz)
CPU_CHOOSER = KernelChooser(processor_of(Target("llvm")))
DEPTHWISE = DepthwiseConvolution(1, 9, 9, 32, 32, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 32, "float32")


def relu() -> tirx.PrimFunc:
    data = te.placeholder((4, 64), name="data")
    return te.create_prim_func([data, topi.nn.relu(data)])


def depthwise() -> tirx.PrimFunc:
    """With the workload and the knobs that are chosen for it."""
    data = te.placeholder((1, 9, 9, 32), "float32", "data")
    weight = te.placeholder((3, 3, 32), "float32", "weight")
    knobs = CHOOSER.choose(DEPTHWISE).knobs
    return te.create_prim_func([data, weight, depthwise_conv2d(data, weight, DEPTHWISE, knobs)])


@pytest.mark.parametrize(
    "rule", [*cpu_rules(CPU_CHOOSER), *cuda_rules(CHOOSER)], ids=lambda rule: type(rule).__name__
)
def test_a_function_that_carries_no_workload_has_no_knobs(rule: Rule) -> None:
    assert rule.workload(relu()) == "" and rule.choice(relu()) is None


def test_the_workload_of_a_kernel_for_gpus_is_without_its_knobs() -> None:
    function = depthwise()
    for rule in cuda_rules(CHOOSER):
        assert rule.workload(function) == DEPTHWISE.to_json()
    assert '"knobs"' in LoopNest().workload(function)


def test_the_rule_of_kernels_with_knobs_has_the_choice() -> None:
    first, *others = cuda_rules(CHOOSER)
    assert first.choice(depthwise()) == CHOOSER.choose(DEPTHWISE)
    assert not any(rule.choice(depthwise()) for rule in others)
    assert not first.is_fallback and all(rule.is_fallback for rule in others)


def test_what_tvm_fails_at_is_refused() -> None:
    class Failing(CudaRule):
        def schedule(self, func: tirx.PrimFunc, target: Target) -> None:
            raise ValueError("no")

    assert Failing().apply(relu(), CHIP.target(), False) is None


def product(batch: int) -> tirx.PrimFunc:
    left, right = (te.placeholder((batch, *shape), name="data") for shape in ((16, 8), (8, 16)))
    return te.create_prim_func([left, right, topi.nn.batch_matmul(left, right, transpose_b=False)])


def windows(image: int) -> tirx.PrimFunc:
    data = te.placeholder((1, image, image, 8), name="data")
    pooled = topi.nn.pool2d(data, [9, 9], [1, 1], [1, 1], [4] * 4, "avg", layout="NHWC")
    return te.create_prim_func([data, pooled])


def grid_of(schedule: Schedule) -> dict[str, int]:
    """Blocks along its axes."""
    found: dict[str, int] = {}

    def bound(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            found[str(loop.thread_binding.thread_tag)] = int(loop.extent)

    structural_walk(schedule.mod["main"].body, (tirx.For, bound))
    return {tag: extent for tag, extent in found.items() if tag.startswith("blockIdx")}


@pytest.mark.parametrize(("function", "many"), [(product(70000), True), (product(300), False)])
def test_more_blocks_than_a_grid_has_along_its_second_axis_are_refused(
    function: tirx.PrimFunc, many: bool
) -> None:
    """TVM's rule for products has one for each of a batch; what its last rule makes has one axis alone."""
    target = CHIP.target()
    found = next(found for rule in cuda_rules(CHOOSER) if (found := rule.apply(function, target, False)))
    grid = grid_of(found)
    assert grid.get("blockIdx.y", 1) <= 65535
    assert ("blockIdx.y" in grid) == (not many)


def test_windows_of_many_pixels_have_their_blocks_along_the_first_axis() -> None:
    target = CHIP.target()
    found = next(found for rule in cuda_rules(CHOOSER) if (found := rule.apply(windows(300), target, False)))
    assert grid_of(found) == {"blockIdx.x": 90000, "blockIdx.y": 1}
