"""What a pooling *is*; see :mod:`topi_ext.workloads.convolution`."""

import json
from dataclasses import dataclass

from topi_ext.workloads.text import with_tuples, workload_text

MAX_POOL, AVERAGE_POOL = "max_pool2d", "avg_pool2d"
"""The operators of a :class:`PoolingWorkload`."""


@dataclass(frozen=True)
class PoolingWorkload:
    """A 2-D window reduction; ``operator`` is :data:`MAX_POOL` or :data:`AVERAGE_POOL`."""

    operator: str
    channels: int
    kernel: tuple[int, int]
    strides: tuple[int, int]
    layout: str
    dtype: str

    def to_json(self) -> str:
        """One line, keys sorted."""
        return workload_text(self)

    @staticmethod
    def from_json(text: str) -> "PoolingWorkload":
        return PoolingWorkload(**with_tuples(json.loads(text)))
