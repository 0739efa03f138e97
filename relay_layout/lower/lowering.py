"""The parts of lowering, from operators to a library, that differ between kinds of targets."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import tvm
from tvm import tirx

from relay_layout.lower.fusion.separable import Decide
from topi_ext.schedule.rule import Rule


class Lowering(ABC):
    """Lowering for one kind of target; called by :mod:`relay_layout.lower.passes` and ``stages``.

    The methods are in the order in which compilation calls them.
    """

    tir_pipeline: ClassVar[str]
    """TVM's name for the passes from scheduled functions to code."""

    @abstractmethod
    def check(self, module: tvm.IRModule) -> None:
        """Raise TargetError if the target has no code for a converted network."""

    @abstractmethod
    def legalize_passes(self) -> list[tvm.transform.Pass]:
        """Passes that lower operators to functions of loops."""

    @abstractmethod
    def join_passes(self, decide: Decide | None) -> list[tvm.transform.Pass]:
        """Passes that join groups of ``FuseOps``; ``decide`` is ``join`` of :func:`.passes.fuse_passes`."""

    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """Schedule rules, most specific first."""

    @abstractmethod
    def annotated(self, scheduled: tirx.PrimFunc) -> tirx.PrimFunc:
        """A scheduled function with the attributes that code generation needs."""

    @abstractmethod
    def buffer_passes(self) -> list[tvm.transform.Pass]:
        """Passes over calls that take their results as arguments, before memory is planned."""

    @abstractmethod
    def launch_passes(self) -> list[tvm.transform.Pass]:
        """Passes that decide how "main", whose caller passes its planned memory, launches kernels."""

    @abstractmethod
    def compiler(self) -> AbstractContextManager[None]:
        """The context in which TVM generates code for the target."""

    @abstractmethod
    def device_code(self, executable: Any) -> dict[str, bytes]:
        """Device code to link with the host's; see :mod:`relay_layout.lower.library.device_code`."""

    @property
    @abstractmethod
    def uses_matrices(self) -> bool:
        """May kernels use the registers of :mod:`topi_ext.codegen.amx`?"""


__all__ = ["Lowering"]
