"""Which lowering a target has, and what kinds of targets differ in."""

from typing import Any, cast

import pytest
from tvm import tirx

from relay_layout.lower.cpu_lowering import CpuLowering
from relay_layout.lower.cuda_lowering import CudaLowering
from relay_layout.lower.lowering_for import lowering_for
from relay_layout.targets import BuildTarget, resolve_target
from topi_ext.schedule.rule import Rule

CPU, GPU = (lowering_for(resolve_target(name)) for name in ("x86-64-v3", "cuda-sm_80"))


def test_each_kind_has_its_own() -> None:
    assert isinstance(CPU, CpuLowering) and isinstance(GPU, CudaLowering)
    assert CPU.tir_pipeline != GPU.tir_pipeline
    for lowering in (CPU, GPU):
        tirx.get_tir_pipeline(lowering.tir_pipeline)


def test_of_a_kind_that_nothing_lowers_for() -> None:
    with pytest.raises(TypeError, match="nothing lowers for a str"):
        lowering_for(cast("BuildTarget", "cuda"))


@pytest.mark.parametrize("lowering", [CPU, GPU], ids=["cpu", "cuda"])
def test_rules_tell_what_they_took(lowering: Any) -> None:
    rules = lowering.rules()
    assert all(isinstance(rule, Rule) for rule in rules)
    assert rules[-1].is_fallback and not rules[0].is_fallback


@pytest.mark.parametrize(("name", "joined"), [("x86-64-v3", 1), ("aarch64-cortex-a76", 0), ("cuda-sm_80", 0)])
def test_two_convolutions_are_one_kernel_on_x86(name: str, joined: int) -> None:
    assert len(lowering_for(resolve_target(name)).separable_passes(lambda workload: True)) == joined


@pytest.mark.parametrize(
    ("name", "has"), [("sapphirerapids", True), ("x86-64-v4", False), ("cuda-sm_90", False)]
)
def test_matrices_are_linked_for_where_the_processor_has_them(name: str, has: bool) -> None:
    assert lowering_for(resolve_target(name)).uses_amx == has
