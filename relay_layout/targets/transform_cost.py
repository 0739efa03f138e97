"""The estimated time of a layout transform, and where the estimate comes from."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, get_args

from relay_layout.graph import Value
from relay_layout.ir import is_static, size_in_bytes
from relay_layout.layout import Layout
from relay_layout.layout.transform import equivalent_memory
from relay_layout.targets.target import BuildTarget
from topi_ext.workloads.transform import TransformWorkload

PriceSource = Literal["measured", "fitted", "modelled"]
"""A recorded time of this very transform, an interpolation of recorded times, or an estimate by bytes
moved."""

PRICE_SOURCES: tuple[str, ...] = get_args(PriceSource)

AXES = {3: "NCW", 4: "NCHW", 5: "NCDHW"}
"""What records call the dimensions of a tensor, by their number; others are called A, B and so on."""


@dataclass(frozen=True)
class TransformPrice:
    """Microseconds of one transform at run time, and where they come from."""

    microseconds: float
    source: PriceSource


def transform_price(machine: BuildTarget, value: Value, source: Layout, target: Layout) -> TransformPrice:
    """The price of transforming ``value`` between layouts; 0 for constants, which are folded at compile
    time.
    """
    if value.constant is not None or value.shape is None:
        return TransformPrice(0.0, "modelled")
    facts = machine.facts
    workload = transform_workload(value, source, target) if len(machine.transforms) else None
    time = None if workload is None else machine.transforms.time(workload)
    if time is not None:
        return TransformPrice(facts.launch_us + time.microseconds, time.source)
    moved = facts.moving_us(2 * size_in_bytes(value.shape, value.dtype))
    # Scaled as estimates of kernels are, to compare with times that were measured on this machine.
    one = facts.launch_us + machine.kernels.estimate_scale * moved
    return TransformPrice(_passes(value, source, target) * one, "modelled")


def _passes(value: Value, source: Layout, target: Layout) -> int:
    """How many passes move the elements: removing and adding padding are passes of their own."""
    if source.alignments == target.alignments or len(source.primal) != len(target.primal):
        return 1
    steps = (source, source.unaligned, target.unaligned, target)
    shape = value.shape or ()
    shape = (1,) * (len(source.primal) - len(shape)) + tuple(shape)
    order = Layout.generic(len(shape))
    return sum(not equivalent_memory(*step, shape, order) for step in pairwise(steps))


def transform_workload(value: Value, source: Layout, target: Layout) -> TransformWorkload | None:
    """The workload under which records keep the transform; None if they cannot.

    That is so for symbolic extents, an extent of 0, padding, a layout with more dimensions than the tensor,
    and bool, which takes several kernels.
    """
    shape = value.shape
    if shape is None or not is_static(shape) or 0 in shape or value.dtype == "bool":
        return None
    return _named(tuple(shape), value.dtype, source, target)


@lru_cache(maxsize=1 << 16)
def _named(shape: tuple[int, ...], dtype: str, source: Layout, target: Layout) -> TransformWorkload | None:
    generic = Layout.generic(len(shape))
    if not all(sorted(side.primal) == sorted(generic.primal) for side in (source, target)):
        return None
    if not all(side.fits(shape, generic) and not side.alignments for side in (source, target)):
        return None
    axes = AXES.get(len(shape), str(generic))
    names = dict(zip(str(generic), axes, strict=True))
    return TransformWorkload(axes, shape, str(source.relabel(names)), str(target.relabel(names)), dtype)
