"""Kernel level: tensor-expression computes, schedules and their knobs.

Knows nothing of graphs or of ``relay_layout``; a kernel is described by a workload
(:mod:`topi_ext.workload`), computed by :mod:`topi_ext.compute`, and given loops by the rules in
:mod:`topi_ext.schedule`.
"""

from topi_ext.errors import RelayLayoutError

__all__ = ["RelayLayoutError"]
