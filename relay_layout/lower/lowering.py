"""What differs between kinds of targets on the way from operators to a library."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import tvm
from tvm import tirx

from relay_layout.lower.fusion.separable import Decide
from topi_ext.schedule.rule import Rule


class Lowering(ABC):
    """One kind of target, as :mod:`relay_layout.lower.passes` and :mod:`relay_layout.lower.stages` ask it.

    The methods stand in the order in which compilation calls them.
    """

    tir_pipeline: ClassVar[str]
    """TVM's name for the passes from scheduled functions to code."""

    @abstractmethod
    def check(self, module: tvm.IRModule) -> None:
        """TargetError for a network in its layouts that the target has no code for."""

    @abstractmethod
    def legalize_passes(self) -> list[tvm.transform.Pass]:
        """Operators to functions of loops."""

    @abstractmethod
    def join_passes(self, decide: Decide | None) -> list[tvm.transform.Pass]:
        """Groups of ``FuseOps`` joined into larger ones; ``decide`` is that of :func:`.fuse_passes`."""

    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Schedule rules, most specific first."""

    @abstractmethod
    def annotated(self, scheduled: tirx.PrimFunc) -> tirx.PrimFunc:
        """A scheduled function with what code generation is to know of it."""

    @abstractmethod
    def launch_passes(self) -> list[tvm.transform.Pass]:
        """How "main", whose memory is planned and passed by its caller, launches its kernels."""

    @abstractmethod
    def compiler(self) -> AbstractContextManager[None]:
        """Within this, TVM generates code for the target."""

    @abstractmethod
    def device_code(self, executable: Any) -> dict[str, bytes]:
        """Machine code to link beside the host's: see :mod:`relay_layout.lower.library.device_code`."""

    @property
    @abstractmethod
    def uses_matrices(self) -> bool:
        """May kernels use the registers of :mod:`topi_ext.codegen.amx`?"""


__all__ = ["Lowering"]
