"""Which kernels of convolutions there are for a workload, and the best by estimate."""

from collections.abc import Iterator
from functools import lru_cache

from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.machine.processor import Processor
from topi_ext.spaces.direct import cheapest_direct, direct_knobs
from topi_ext.spaces.separable import separable_knobs
from topi_ext.spaces.winograd import winograd_knobs
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload


def knob_space(workload: ConvolutionWorkload, processor: Processor) -> Iterator[tuple[float, Knobs]]:
    """All knobs worth trying for a workload with static extents, each with its estimated cycles."""
    if isinstance(workload, SeparableWorkload):
        yield from separable_knobs(workload, processor)
        return
    yield from direct_knobs(workload, processor)
    yield from winograd_knobs(workload, processor)


def estimated_cycles(workload: ConvolutionWorkload, processor: Processor, knobs: Knobs) -> float | None:
    """What :func:`knob_space` estimates for these knobs; None for knobs that are not in it."""
    space: Iterator[tuple[float, Knobs]]
    if isinstance(workload, SeparableWorkload):
        space = separable_knobs(workload, processor)
    elif isinstance(knobs, WinogradKnobs):
        space = winograd_knobs(workload, processor)
    else:
        space = direct_knobs(workload, processor, like=knobs)
    return next((cycles for cycles, found in space if found == knobs), None)


@lru_cache(maxsize=8192)
def cheapest(
    workload: ConvolutionWorkload, processor: Processor, winograd: bool = True
) -> tuple[float, Knobs]:
    """The knobs with the least estimated cycles (over all threads), direct ones alone if not ``winograd``.

    Needs static height, width and channels.
    """
    if isinstance(workload, SeparableWorkload):
        return min(separable_knobs(workload, processor), key=lambda found: found[0])
    direct = cheapest_direct(workload, processor)
    others = winograd_knobs(workload, processor) if winograd else ()
    return min([direct, *others], key=lambda found: found[0])
