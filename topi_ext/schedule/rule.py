"""What all schedule rules share: dlight's interface, and what they tell of the functions that they took."""

from typing import ClassVar

from tvm import tirx
from tvm.s_tir.dlight import ScheduleRule

from topi_ext.kernel_choice import KernelChoice
from topi_ext.schedule.blocks import carried_workload


class Rule(ScheduleRule):
    """A rule of dlight's, ``apply(func, target, tunable)``, which answers with a ``Schedule`` or with None.

    The other methods are asked of functions, as they were before, that :meth:`apply` has a schedule for.
    """

    is_fallback: ClassVar[bool] = False
    """Does it take what other rules leave? An operator that has a kernel has missed it then."""

    def workload(self, func: tirx.PrimFunc) -> str:
        """What the function computes, as JSON; empty where none of its blocks carries that."""
        found = carried_workload(func)
        return found[0] if found else ""

    def choice(self, func: tirx.PrimFunc) -> KernelChoice | None:
        """The kernel that the schedule is of; None where it has no knobs."""
        del func
        return None


__all__ = ["Rule"]
