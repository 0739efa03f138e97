"""From a converted module to a shared library: our computes, fusion, our schedules.

:mod:`.stages` has the way from one to the other, :mod:`.passes` its passes in order. What differs between
kinds of targets is behind one interface (:mod:`.lowering`), for CPUs (:mod:`.cpu_lowering`) and for GPUs
(:mod:`.cuda_lowering`). :mod:`.legalize` makes a compute of every operator, :mod:`.fusion` decides which
share a kernel, :mod:`.schedule` gives the kernels their loops by the rules of :mod:`topi_ext.rules`,
:mod:`.memory` places tensors, and :mod:`.library` generates code and links it. Extents that are known at run
time alone are the matter of :mod:`.dynamic_shapes`; loops and branches that the data decide, of
:mod:`.body_lowering` and :mod:`.drivers`.
"""
