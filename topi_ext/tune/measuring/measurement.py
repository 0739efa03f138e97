"""The interface of what measures kernels, and its results."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tvm import tirx


@dataclass(frozen=True)
class Measurement:
    """Run times in seconds, or the ``error`` that prevented them.

    ``lost`` marks a kernel during which the machine disappeared each time, which says nothing of the kernel.
    """

    seconds: tuple[float, ...]
    error: str = ""
    lost: bool = False


class Measurer(Protocol):
    """Measures the kernels of one :class:`topi_ext.family.Family` on one kind of machine."""

    cpu: str
    """The model name of the machine that runs the kernels; records keep it."""

    @property
    def builds_ahead(self) -> bool:
        """May kernels of one task be built while those of another run?

        Not if kernels run on the CPU that builds them: that would disturb the measurements.
        """
        ...

    def measure(self, workload: Any, knobs: Sequence[Any], rounds: int = 1) -> Iterator[Measurement]:
        """One measurement for each of ``knobs``, in order, each as soon as it is available.

        With several rounds, all kernels run once in each round, so that a busy moment of the machine affects
        all of them alike.
        """
        ...

    def measure_functions(self, functions: Sequence[tirx.PrimFunc], rounds: int = 1) -> Iterator[Measurement]:
        """As :meth:`measure`, for scheduled functions with one input and one output tensor each."""
        ...

    def build_ahead(self, workload: Any, knobs: Sequence[Any]) -> None:
        """Start building what :meth:`measure` will be asked for next; called only if :attr:`builds_ahead`."""
        ...

    def result_error(self, workload: Any, knobs: Any) -> str:
        """How a kernel's result differs from what it should be, as a message; empty if it is right."""
        ...

    def close(self) -> None:
        """End the worker processes."""
        ...
