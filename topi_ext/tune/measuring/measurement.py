"""What measuring a kernel gives, and what does it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx


@dataclass(frozen=True)
class Measurement:
    """Run times in seconds, or what went wrong.

    ``lost``: the machines that ran the kernel went away each time, which says nothing of the kernel.
    """

    seconds: tuple[float, ...]
    error: str = ""
    lost: bool = False


class Measurer(Protocol):
    """Something that times kernels of one :class:`topi_ext.family.Family`, whose workloads it takes."""

    cpu: str
    """The model of the machine that runs them."""

    @property
    def builds_ahead(self) -> bool:
        """Whether kernels of one task may be built while those of another run.

        On a processor that would disturb what is measured.
        """
        ...

    def measure(self, workload: Any, knobs: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        """One measurement for each of ``knobs`` in order, each as soon as it is there.

        With several rounds all knobs are run once in each round, so that a busy moment of the machine
        hits all alike.
        """
        ...

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """The same for scheduled functions of one tensor each that is read, and one that is written."""
        ...

    def build_ahead(self, workload: Any, knobs: Sequence[Any]) -> None:
        """Begin to build what :meth:`measure` will be asked for next; asked of those that build ahead."""
        ...

    def result_error(self, workload: Any, knobs: Any) -> str:
        """What is wrong with a kernel's result; empty where nothing is."""
        ...

    def close(self) -> None:
        """End the processes."""
        ...


__all__ = ["Measurement", "Measurer"]
