"""Targets: what is compiled for, which layouts it offers, and what operators cost in them.

:mod:`.resolve` makes a :mod:`.target` of a name, TVM's JSON or a TVM target: a :mod:`.cpu`, of the processors
in :mod:`.x86` and :mod:`.arm`, or a :mod:`.cuda` one. A processor is added there, the rates of its family in
:mod:`.facts`. :mod:`.offers` names the layouts of convolutions (:mod:`.convolutions`) with their costs: on
CPUs those of :mod:`.cpu_convolution_cost` and :mod:`.cpu_matmul_cost`, of transforms those of
:mod:`.transform_cost`. :mod:`.backend` asks a caller's own backend instead.
"""

from relay_layout.targets.backend import LayoutBackend, OperatorView, Requirement
from relay_layout.targets.convolutions import CONVOLUTION_AXES, CONVOLUTIONS, TRANSPOSED_CONVOLUTIONS
from relay_layout.targets.cpu import CpuTarget, require_cpu
from relay_layout.targets.cuda import CudaTarget, require_cuda
from relay_layout.targets.offers import DesiredOffers, TargetOffers
from relay_layout.targets.resolve import TargetLike, resolve_target
from relay_layout.targets.target import BuildTarget

__all__ = [
    "CONVOLUTIONS",
    "CONVOLUTION_AXES",
    "TRANSPOSED_CONVOLUTIONS",
    "BuildTarget",
    "CpuTarget",
    "CudaTarget",
    "DesiredOffers",
    "LayoutBackend",
    "OperatorView",
    "Requirement",
    "TargetLike",
    "TargetOffers",
    "require_cpu",
    "require_cuda",
    "resolve_target",
]
