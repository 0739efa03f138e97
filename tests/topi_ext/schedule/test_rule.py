"""What rules tell of the functions that they take."""

import pytest
from tvm import te, tirx, topi
from tvm.target import Target

from topi_ext.chooser import KernelChooser
from topi_ext.compute.depthwise import depthwise_conv2d
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.schedule.cuda.rules import CudaRule, cuda_rules
from topi_ext.schedule.rule import Rule
from topi_ext.schedule.rules import LoopNest, cpu_rules

CHIP = MULTIPROCESSORS["sm_80"]
CHOOSER = KernelChooser(CHIP, CHIP.gigahertz)
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


@pytest.mark.parametrize("rule", [*cpu_rules(), *cuda_rules(CHOOSER)], ids=lambda rule: type(rule).__name__)
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
