"""Targets: facts as data, resolution of names, and the layouts each target offers."""

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
