"""The interface of the parts of lowering that differ between kinds of targets."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import tvm
from tvm import tirx

from relay_layout.lower.fusion.separable import FusionDecision
from topi_ext.schedule.rule import Rule


class Lowering(ABC):
    """Lowering for one kind of target, as :mod:`relay_layout.lower.passes` and ``stages`` call it.

    The methods are in the order in which compilation calls them.
    """

    tir_pipeline: ClassVar[str]
    """The registered name of TVM's pass pipeline from scheduled functions to code."""

    @abstractmethod
    def check(self, module: tvm.IRModule) -> None:
        """Raise TargetError for a converted network that the target cannot run."""

    @abstractmethod
    def legalize_passes(self) -> list[tvm.transform.Pass]:
        """The passes that lower Relax operators to TIR functions."""

    @abstractmethod
    def separable_passes(self, decide: FusionDecision | None) -> list[tvm.transform.Pass]:
        """The passes that merge groups of ``FuseOps`` for one kernel of two convolutions.

        ``decide`` is the argument ``join`` of :func:`.passes.fuse_passes`; None leaves the decision to the
        target.
        """

    @abstractmethod
    def rules(self) -> Sequence[Rule]:
        """The schedule rules for TIR functions, most specific first."""

    @abstractmethod
    def with_codegen_attributes(self, scheduled: tirx.PrimFunc) -> tirx.PrimFunc:
        """A scheduled function with the attributes that code generation reads."""

    @abstractmethod
    def buffer_passes(self) -> list[tvm.transform.Pass]:
        """Passes over calls that take their results as arguments, before memory is planned."""

    @abstractmethod
    def launch_passes(self) -> list[tvm.transform.Pass]:
        """The passes over "main" that decide how it launches kernels; its memory is planned by then."""

    @abstractmethod
    def codegen_context(self) -> AbstractContextManager[None]:
        """The context in which TVM must generate code for the target."""

    @abstractmethod
    def device_code(self, executable: Any) -> dict[str, bytes]:
        """Device code to link with the host code; see :mod:`relay_layout.lower.library.device_code`."""

    @property
    @abstractmethod
    def uses_amx(self) -> bool:
        """May kernels use AMX, for which a process must ask the operating system
        (:mod:`topi_ext.codegen.amx`)?
        """
