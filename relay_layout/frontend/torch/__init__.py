"""Import of PyTorch programs: modules, ``torch.export`` programs and ``.pt2`` files."""

from relay_layout.frontend.torch.program import from_torch

__all__ = ["from_torch"]
