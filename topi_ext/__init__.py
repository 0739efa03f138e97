"""Kernel level: tensor-expression computes, schedules and their knobs.

Knows nothing of graphs or of ``relay_layout``. A kernel is described by a workload
(:mod:`topi_ext.workloads`), and its processor by :mod:`topi_ext.machine`. Its knobs (:mod:`topi_ext.knobs`)
are chosen by :mod:`topi_ext.chooser`: those on record (:mod:`topi_ext.tune.records`), or the best by estimate
of its space (:mod:`topi_ext.spaces`). It is computed by :mod:`topi_ext.compute`, given loops by the rules
that :mod:`topi_ext.rules` lists and :mod:`topi_ext.schedule` has, and turned into code with
:mod:`topi_ext.codegen`. :mod:`topi_ext.cuda` has the same parts for GPUs; :mod:`topi_ext.tune` searches for
better knobs, and :mod:`topi_ext.files` writes files for all of these.
"""

from topi_ext.errors import RelayLayoutError

__all__ = ["RelayLayoutError"]
