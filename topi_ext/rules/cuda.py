"""Schedule rules of CUDA targets, in the order in which they are asked."""

import logging
from abc import abstractmethod
from collections.abc import Callable

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule, gpu
from tvm.target import Target

from topi_ext.chooser import KernelChooser
from topi_ext.cuda.annotation import Kernel, described_kernel
from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.multiprocessor import MOST_BLOCKS, multiprocessor_of
from topi_ext.cuda.schedule.depthwise import schedule_depthwise
from topi_ext.cuda.schedule.elementwise import schedule_elementwise
from topi_ext.cuda.schedule.implicit_gemm import schedule_product
from topi_ext.cuda.schedule.normalization import schedule_normalization
from topi_ext.cuda.schedule.reductions import schedule_reduction
from topi_ext.cuda.schedule.rows import schedule_rows
from topi_ext.cuda.schedule.single_terms import without_single_terms
from topi_ext.cuda.schedule.winograd import schedule_transform
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs, product_of
from topi_ext.cuda.workload import DepthwiseConvolution
from topi_ext.ir import nodes_of
from topi_ext.kernel_choice import KernelChoice
from topi_ext.schedule.blocks import carried_workload
from topi_ext.schedule.rule import Rule

_LOG = logging.getLogger(__name__)


class CudaRule(Rule):
    """A rule for functions that nvcc compiles; what TVM refuses, or fails at, or has more blocks for than a
    grid, the next rule is asked for.

    Of all of them :class:`Convolution` alone has kernels with knobs.
    """

    is_fallback = True

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """None for what :meth:`schedule` does not take."""
        func = without_single_terms(func)
        try:
            with target:
                found = self.schedule(func, target)
        except Exception:
            _LOG.debug("%s refuses %s", self, func, exc_info=True)
            return None
        return found if found is None or _has_grid(found) else None

    @abstractmethod
    def schedule(self, func: tirx.PrimFunc, target: Target) -> Schedule | None:
        """The schedule; None, or any exception, for what the rule does not take."""

    def workload(self, func: tirx.PrimFunc) -> str:
        """Without the knobs, which the annotation of a kernel of ours has too."""
        kernel = _kernel(func)
        return super().workload(func) if kernel is None else kernel[0].to_json()


def _has_grid(schedule: Schedule) -> bool:
    """Can its kernels be launched? Compilers know no grid, and the driver refuses one that is too large."""
    loops = nodes_of(schedule.mod["main"].body, tirx.For)
    extents = {
        int(loop.extent)
        for loop in loops
        if loop.thread_binding is not None
        and str(loop.thread_binding.thread_tag) in ("blockIdx.y", "blockIdx.z")
        and isinstance(loop.extent, tirx.IntImm)
    }
    return max(extents, default=1) <= MOST_BLOCKS


def _kernel(func: tirx.PrimFunc) -> Kernel | None:
    """The kernel of ours that a function was made for."""
    found = carried_workload(func)
    return None if found is None else described_kernel(found[0])


class Convolution(CudaRule):
    """Functions around ``cuda.compute.implicit_gemm`` or ``cuda.compute.depthwise``, by the knobs that they
    were made for, which ``chooser`` knows.
    """

    is_fallback = False

    def __init__(self, chooser: KernelChooser) -> None:
        self.chooser = chooser

    def schedule(self, func: tirx.PrimFunc, target: Target) -> Schedule | None:
        """None where the function is neither, or what follows the sums cannot be fused."""
        kernel = _kernel(func)
        if kernel is None:
            return None
        workload, knobs = kernel
        if isinstance(workload, DepthwiseConvolution):
            assert isinstance(knobs, DepthwiseKnobs)
            return schedule_depthwise(func, knobs)
        if isinstance(knobs, WinogradGemmKnobs):
            workload, knobs = product_of(workload, knobs.tile), knobs.product
        assert isinstance(knobs, GemmKnobs)
        return schedule_product(func, workload, knobs, multiprocessor_of(target))

    def choice(self, func: tirx.PrimFunc) -> KernelChoice | None:
        """What the chooser has for the workload."""
        kernel = _kernel(func)
        return None if kernel is None else self.chooser.choose(kernel[0])


class Scheduled(CudaRule):
    """A function that schedules what it is made for, and says None of anything else."""

    def __init__(self, scheduled: Callable[[tirx.PrimFunc], Schedule | None]) -> None:
        self.scheduled = scheduled

    def schedule(self, func: tirx.PrimFunc, target: Target) -> Schedule | None:
        """What the function says."""
        return self.scheduled(func)


class Dlight(CudaRule):
    """A rule of TVM's."""

    def __init__(self, rule: ScheduleRule) -> None:
        self.rule = rule

    def schedule(self, func: tirx.PrimFunc, target: Target) -> Schedule | None:
        """What the rule says, the first of several schedules."""
        found = self.rule.apply(func, target, False)
        return found[0] if isinstance(found, list) else found


class Unannotated(CudaRule):
    """A rule kept from the loops of our convolutions: what it makes of these, code generation refuses."""

    def __init__(self, rule: CudaRule) -> None:
        self.rule = rule

    def schedule(self, func: tirx.PrimFunc, target: Target) -> Schedule | None:
        """What the rule says."""
        return None if carried_workload(func) is not None else self.rule.schedule(func, target)


def cuda_rules(chooser: KernelChooser) -> list[CudaRule]:
    """Most specific first; dlight's last one takes every function of loops.

    ``chooser`` is what convolutions were lowered with.
    """
    return [
        Convolution(chooser),
        Scheduled(schedule_transform),
        Scheduled(schedule_rows),
        Scheduled(schedule_elementwise),
        Unannotated(Scheduled(schedule_reduction)),
        Scheduled(schedule_normalization),
        Unannotated(Dlight(gpu.Matmul())),
        Unannotated(Dlight(gpu.Reduction())),
        Unannotated(Dlight(gpu.GeneralReduction())),
        Dlight(gpu.Fallback()),
    ]
