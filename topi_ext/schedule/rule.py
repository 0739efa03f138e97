"""The base class of schedule rules: dlight's interface, and queries about the functions they scheduled."""

from typing import ClassVar

from tvm import tirx
from tvm.s_tir.dlight import ScheduleRule

from topi_ext.kernel_choice import KernelChoice
from topi_ext.schedule.blocks import carried_workload


class Rule(ScheduleRule):
    """A dlight rule: ``apply(func, target, tunable)`` returns a ``Schedule``, or None for "not mine".

    The other methods are called with functions that :meth:`apply` has scheduled, as they were before that.
    """

    is_fallback: ClassVar[bool] = False
    """Does the rule take functions that all others refuse? For a tunable operator this means it got no
    kernel."""

    def workload(self, func: tirx.PrimFunc) -> str:
        """The workload that the function computes, as JSON; empty if none of its blocks carries one."""
        found = carried_workload(func)
        return found[0] if found else ""

    def choice(self, func: tirx.PrimFunc) -> KernelChoice | None:
        """The kernel that was scheduled; None for one without knobs."""
        return None
