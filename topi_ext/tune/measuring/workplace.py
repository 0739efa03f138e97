"""Where kernels are built and run to be measured, and who hears of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from topi_ext.tune.measuring.boards import BoardEvent
from topi_ext.tune.measuring.tracker import RemoteDevice


@dataclass(frozen=True)
class Workplace:
    """This machine, which builds kernels, and what runs them: itself, or all machines that ``remote`` lends.

    ``cpu`` is the model of the CPU or GPU that runs them. ``link`` is the compiler driver that links for it;
    without one, that machine links for itself. ``builders`` is how many processes build. ``tell`` is called
    with a line where a remote machine is unfit, lost or waited for, ``watch`` with all that remote machines
    do; where ``stop`` says so, kernels that are being built are given up, as errors.
    """

    cpu: str
    link: Sequence[str] = ()
    remote: RemoteDevice | None = None
    builders: int = 1
    tell: Callable[[str], None] = lambda line: None
    watch: Callable[[BoardEvent], None] = lambda event: None
    stop: Callable[[], bool] = lambda: False
