"""Which layout transforms are measured, and the functions that stand for them."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import tvm

from relay_layout.choice.plan import LayoutPlan, plan_layout
from relay_layout.layout.transform import apply
from relay_layout.targets import resolve_target
from relay_layout.tuning.transforms import (
    MOST_SIZES,
    chosen_transforms,
    considered_transforms,
    sampled,
    transform_function,
)
from tests import layout_graphs
from topi_ext.tune.measuring.workers import build, named
from topi_ext.workloads.transform import TransformWorkload

LAYOUTS = ("NCHW", "NHWC", "NCHW16c", "NCHW8c")
TARGET = resolve_target("x86-64-v3", threads=2, shipped_records=False)


def plan_of(seed: int, layout: str = "auto") -> LayoutPlan:
    module = tvm.relax.transform.Normalize()(layout_graphs.random_module(seed, 6))
    return plan_layout(module, layout_graphs.request_for(layout), TARGET)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_left_to_run_was_considered(seed: int) -> None:
    plan = plan_of(seed, "NHWC")
    assert set(chosen_transforms(plan)) <= set(considered_transforms(plan))


def test_some_is_left_to_run() -> None:
    assert any(chosen_transforms(plan_of(seed, "NHWC")) for seed in range(6))


def image(size: int, target: str = "NHWC", rows: int = 4) -> TransformWorkload:
    return TransformWorkload("NCHW", (1, 16, rows, size), "NCHW", target, "float32")


def test_few_sizes_stand_for_many() -> None:
    sizes = [2**power for power in range(9)] + [3, 5, 100, 200]
    found = sampled([image(size) for size in sizes] + [image(8, "NCHW16c")])
    assert len(found) == MOST_SIZES + 1
    widths = [workload.shape[3] for workload in found if workload.target_layout == "NHWC"]
    assert (widths[0], widths[-1]) == (1, 256)
    steps = [after / before for before, after in pairwise(widths)]
    assert max(steps) <= 8


def test_equal_sizes_are_measured_once() -> None:
    assert sampled([image(8), image(4, rows=8), image(8)]) == [image(8)]


@pytest.mark.parametrize(("source", "target"), [*permutations(LAYOUTS, 2)])
def test_the_function_does_it(source: str, target: str) -> None:
    workload = TransformWorkload("NCHW", (2, 32, 3, 5), source, target, "float32")
    function = transform_function(TARGET, workload)
    library = build(named(function), TARGET.tvm_target)
    plain = np.random.default_rng(0).standard_normal(workload.shape, np.float32)
    expected = apply(plain, "NCHW", target)
    result = tvm.runtime.empty(expected.shape, "float32")
    library["main"](tvm.runtime.tensor(apply(plain, "NCHW", source)), result)
    np.testing.assert_array_equal(result.numpy(), expected)
