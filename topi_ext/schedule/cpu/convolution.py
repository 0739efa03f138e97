"""Convolutions: the kernel that was chosen for the workload, around whatever was fused with it."""

import logging

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target

from topi_ext.chooser import KernelChoice, KernelChooser
from topi_ext.kernel import schedule
from topi_ext.processor import processor_of
from topi_ext.schedule.blocks import annotated_block, open_schedule
from topi_ext.workload import ALGORITHM, SEPARABLE, ConvolutionWorkload, operator_of

_LOG = logging.getLogger(__name__)


class Convolution(ScheduleRule):
    """Schedules every function whose anchor is a 2-D or 3-D convolution with static extents.

    ``chooser`` decides on the knobs; by default one for the target at hand, without records.
    """

    def __init__(self, chooser: KernelChooser | None = None) -> None:
        self.chooser = chooser

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """None where the function is no such convolution."""
        if not isinstance(func, tirx.PrimFunc) or target.kind.name != "llvm":
            return None
        try:
            found = self._found(func, self.chooser or KernelChooser(processor_of(target)))
            return None if found is None else schedule(func, found[0], found[1].knobs)
        except RuntimeError:
            # What TVM refuses (ScheduleError, or a check of its own) costs speed and no more:
            # the next rule takes the function.
            _LOG.debug("not a convolution that can be tiled: %s", func, exc_info=True)
            return None

    def choice(self, func: tirx.PrimFunc) -> KernelChoice | None:
        """The kernel that the rule's own chooser has for ``func``, which it was asked to apply."""
        found = self._found(func, self.chooser) if self.chooser else None
        return None if found is None else found[1]

    def _found(
        self, func: tirx.PrimFunc, chooser: KernelChooser
    ) -> tuple[ConvolutionWorkload, KernelChoice] | None:
        sch = open_schedule(func)
        found = annotated_block(sch)
        if found is None or operator_of(found[1]) not in ("conv2d", "conv3d", SEPARABLE):
            return None
        workload = ConvolutionWorkload.from_json(found[1])
        if not is_static(workload):
            return None
        direct = ALGORITHM not in sch.get(found[0]).annotations
        return workload, chooser.choose(workload, direct=direct)


def is_static(workload: ConvolutionWorkload) -> bool:
    """Are all extents but the batch known, as knobs need them?"""
    extents = (workload.in_channels, workload.out_channels, workload.in_height, workload.in_width)
    return all(isinstance(extent, int) for extent in (*extents, *workload.depth))


__all__ = ["Convolution", "is_static"]
