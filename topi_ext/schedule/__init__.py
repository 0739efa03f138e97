"""Schedule rules: one kernel family per file, in the order in which they are asked.

Every rule has the interface of TVM's dlight, ``apply(func, target, tunable)``, and answers with a
``Schedule`` or with None for "not mine".
"""

from tvm.s_tir.dlight import ScheduleRule

from topi_ext.schedule.cpu.convolution import DirectConvolution
from topi_ext.schedule.cpu.loops import LoopNest
from topi_ext.schedule.cpu.pooling import WindowPooling


def cpu_rules() -> list[ScheduleRule]:
    """The rules of CPU targets, most specific first; the last one takes every function."""
    return [DirectConvolution(), WindowPooling(), LoopNest()]


__all__ = ["DirectConvolution", "LoopNest", "WindowPooling", "cpu_rules"]
