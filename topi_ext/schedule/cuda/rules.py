"""Schedule rules of CUDA targets, in the order in which they are asked."""

import logging
from collections.abc import Callable

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule, gpu
from tvm.target import Target

from topi_ext.cuda.annotation import described_kernel
from topi_ext.cuda.depthwise import DepthwiseKnobs
from topi_ext.cuda.knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import multiprocessor_of
from topi_ext.cuda.winograd import WinogradGemmKnobs, product_of
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.schedule.blocks import carried_workload
from topi_ext.schedule.cuda.depthwise import schedule_depthwise
from topi_ext.schedule.cuda.elementwise import schedule_elementwise
from topi_ext.schedule.cuda.implicit_gemm import schedule_product
from topi_ext.schedule.cuda.normalization import schedule_normalization
from topi_ext.schedule.cuda.reductions import schedule_reduction
from topi_ext.schedule.cuda.rows import schedule_rows
from topi_ext.schedule.cuda.winograd import schedule_transform

_LOG = logging.getLogger(__name__)


class Convolution(ScheduleRule):
    """Functions around ``compute.implicit_gemm`` or ``compute.depthwise``, by the knobs that they were made
    for.
    """

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """None where the function is neither, or what follows the sums cannot be fused."""
        del tunable
        found = carried_workload(func)
        kernel = described_kernel(found[0]) if found is not None else None
        if kernel is None:
            return None
        workload, knobs = kernel
        if isinstance(workload, DepthwiseConvolution):
            assert isinstance(knobs, DepthwiseKnobs)
            return schedule_depthwise(func, workload, knobs)
        if isinstance(knobs, WinogradGemmKnobs):
            workload, knobs = product_of(workload, knobs.tile), knobs.product
        assert isinstance(knobs, GemmKnobs)
        return schedule_product(func, workload, knobs, multiprocessor_of(target))


class Scheduled(ScheduleRule):
    """A function that schedules what it is made for, and says None of anything else."""

    def __init__(self, schedule: Callable[[tirx.PrimFunc], Schedule | None]) -> None:
        self.schedule = schedule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """What the function says."""
        del target, tunable
        return self.schedule(func)


class Unannotated(ScheduleRule):
    """A rule kept from the loops of our convolutions: what it makes of these, code generation refuses."""

    def __init__(self, rule: ScheduleRule) -> None:
        self.rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """What the rule says."""
        if carried_workload(func) is not None:
            return None
        return self.rule.apply(func, target, tunable)


class Guarded(ScheduleRule):
    """A rule of which a refusal by TVM only means that the next one is asked."""

    def __init__(self, rule: ScheduleRule) -> None:
        self.rule = rule

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """What the rule says."""
        try:
            with target:
                found = self.rule.apply(func, target, tunable)
        except Exception:
            _LOG.debug("%s refuses %s", self.rule, func, exc_info=True)
            return None
        return found[0] if isinstance(found, list) else found


def cuda_rules() -> list[Guarded]:
    """Most specific first; dlight's last one takes every function of loops."""
    ours = [
        Convolution(),
        Scheduled(schedule_transform),
        Scheduled(schedule_rows),
        Scheduled(schedule_elementwise),
        Unannotated(Scheduled(schedule_reduction)),
        Scheduled(schedule_normalization),
    ]
    theirs = [Unannotated(rule) for rule in (gpu.Matmul(), gpu.Reduction(), gpu.GeneralReduction())]
    return [Guarded(rule) for rule in (*ours, *theirs, gpu.Fallback())]


__all__ = ["Convolution", "Guarded", "Scheduled", "Unannotated", "cuda_rules"]
