"""What a layout transform *is*; see :mod:`topi_ext.workloads.convolution`."""

from dataclasses import dataclass
from math import prod

from topi_ext.workloads.text import workload_text

LAYOUT_TRANSFORM = "layout_transform"
"""The operator of a :class:`TransformWorkload`."""


@dataclass(frozen=True)
class TransformWorkload:
    """A tensor brought from one layout into another.

    ``shape`` are its extents in the order of ``axes``, letters that both layouts name, such as ``NCHW``.
    """

    axes: str
    shape: tuple[int, ...]
    source_layout: str
    target_layout: str
    dtype: str
    operator: str = LAYOUT_TRANSFORM

    @property
    def elements(self) -> int:
        """How many elements move."""
        return prod(self.shape)

    def to_json(self) -> str:
        """One line, keys sorted."""
        return workload_text(self)
