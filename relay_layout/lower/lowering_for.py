"""The lowering of each kind of target."""

from relay_layout.lower.cpu_lowering import CpuLowering
from relay_layout.lower.cuda_lowering import CudaLowering
from relay_layout.lower.lowering import Lowering
from relay_layout.targets import BuildTarget, CpuTarget, CudaTarget


def lowering_for(target: BuildTarget) -> Lowering:
    """What lowers networks for ``target``."""
    if isinstance(target, CpuTarget):
        return CpuLowering(target)
    if isinstance(target, CudaTarget):
        return CudaLowering(target)
    raise TypeError(f"nothing lowers for a {type(target).__name__}")
