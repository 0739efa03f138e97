"""What schedule rules for CPUs share: which functions they see, and what happens when TVM refuses one."""

import logging
from abc import abstractmethod

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from topi_ext.machine.processor import Processor, processor_of
from topi_ext.schedule.rule import Rule

_LOG = logging.getLogger(__name__)


class ProcessorRule(Rule):
    """A rule for functions that LLVM compiles. If TVM refuses a schedule, only speed is lost."""

    def apply(self, func: tirx.PrimFunc, target: Target, tunable: bool) -> Schedule | None:
        """None if :meth:`schedule` does not take the function; the next rule is tried then."""
        if not isinstance(func, tirx.PrimFunc) or target.kind.name != "llvm":
            return None
        try:
            return self.schedule(func, processor_of(target))
        except RuntimeError:
            _LOG.debug("%s does not take %s", type(self).__name__, func, exc_info=True)
            return None

    @abstractmethod
    def schedule(self, func: tirx.PrimFunc, processor: Processor) -> Schedule | None:
        """The schedule; None, or a RuntimeError from TVM, for a function that the rule does not take."""
