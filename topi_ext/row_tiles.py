"""Direct kernels of images of any size: each call takes the tiles that suit its rows best."""

from dataclasses import dataclass
from typing import Any

from topi_ext.knobs import ConvolutionKnobs


@dataclass(frozen=True)
class RowTiles:
    """Kernels of one convolution, those of longer tiles first, of which each call takes one.

    ``cycles``: of each kernel, what all tiles at one place along the rows are estimated to take, over what
    they take of the first, times 1000. A call takes the least of the tiles that its rows need, of kernels
    whose tiles are no longer than its rows.
    """

    kernels: tuple[ConvolutionKnobs, ...]
    cycles: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The knobs of the first kernel, and those of each other one that differ from them."""
        first, *others = (kernel.to_dict() for kernel in self.kernels)
        different = [
            {name: value for name, value in other.items() if first.get(name) != value} for other in others
        ]
        return {**first, **({"or": different} if different else {})}


__all__ = ["RowTiles"]
