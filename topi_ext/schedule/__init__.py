"""Schedules: what gives functions their loops. :mod:`topi_ext.rules` lists the rules in the order of asking.

Rules for CPUs are in :mod:`.cpu`, one kernel family per file; those for GPUs in
:mod:`topi_ext.cuda.schedule`. Here is what they share: questions about blocks (:mod:`.blocks`), and changes
of loops for which TVM's schedules have no primitive: a rule marks a loop or a block, and a function
``apply_...`` makes the change afterwards.
"""
