"""Convolutions: the kernel that was chosen for the workload, around whatever was fused with it."""

from typing import NamedTuple

from tvm import tirx
from tvm.s_tir import Schedule

from topi_ext.chooser import KernelChooser
from topi_ext.kernel import schedule
from topi_ext.kernel_choice import KernelChoice
from topi_ext.knobs import WinogradKnobs
from topi_ext.machine.processor import Processor
from topi_ext.schedule.blocks import carried_workload
from topi_ext.schedule.cpu.any_size import schedule_any_size
from topi_ext.schedule.cpu.rule import ProcessorRule
from topi_ext.schedule.cpu.winograd_any_size import schedule_winograd_any_size
from topi_ext.spaces.any_size import shorter_knobs, whole_tile_knobs
from topi_ext.workloads.convolution import ALGORITHM, TYPICAL, ConvolutionWorkload
from topi_ext.workloads.facts import lanes_are_pixels
from topi_ext.workloads.reading import convolution_from_json
from topi_ext.workloads.separable import SEPARABLE
from topi_ext.workloads.text import operator_of


class _Chosen(NamedTuple):
    """The convolution of a function and the kernel that was chosen for it."""

    workload: ConvolutionWorkload
    """With static extents; at a typical size where ``any_size``."""

    choice: KernelChoice
    any_size: bool


class Convolution(ProcessorRule):
    """Schedules every function whose anchor is a 2-D or 3-D convolution with static channels.

    Where the size of the images is dynamic, the block must be annotated with a typical workload
    (:data:`topi_ext.workloads.convolution.TYPICAL`). ``chooser`` chooses the knobs.
    """

    def __init__(self, chooser: KernelChooser) -> None:
        self.chooser = chooser

    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """None where the function is no such convolution."""
        found = self._found(func)
        if found is None:
            return None
        workload, knobs = found.workload, found.choice.knobs
        if not found.any_size:
            return schedule(func, workload, knobs)
        if isinstance(knobs, WinogradKnobs):
            return schedule_winograd_any_size(func, workload, knobs)
        sizes = workload, processor, knobs
        return schedule_any_size(func, workload, knobs, shorter_knobs(*sizes), whole_tile_knobs(*sizes))

    def choice(self, func: tirx.PrimFunc) -> KernelChoice | None:
        """The kernel that the chooser has for ``func``."""
        found = self._found(func)
        return None if found is None else found.choice

    def _found(self, func: tirx.PrimFunc) -> _Chosen | None:
        """The convolution in ``func`` and its kernel; None for a function that the rule does not take."""
        found = carried_workload(func)
        if found is None or operator_of(found[0]) not in ("conv2d", "conv3d", SEPARABLE):
            return None
        text, annotations = found
        workload = convolution_from_json(text)
        typical = convolution_from_json(str(annotations.get(TYPICAL, text)))
        if not typical.is_static or (lanes_are_pixels(typical) and not workload.is_static):
            return None
        winograd = ALGORITHM in annotations
        any_size = not workload.is_static
        choice = self.chooser.choose(typical, winograd=winograd, any_size=any_size)
        return _Chosen(typical if any_size else workload, choice, any_size)
