"""Values that the lanes of a warp hand to each other on a simulated GPU, as CUDA's __shfl_sync has it."""

from typing import Any

import numpy as np
from tvm.ir import Call

LANES = 32


def activemask(grid: Any, node: Call) -> np.ndarray:
    return np.broadcast_to(np.ones(1, bool) if grid.mask is None else grid.mask, grid.block.shape)


def shuffle_down(grid: Any, node: Call) -> np.ndarray:
    """What a lane ``delta`` places on has, or its own beyond the end of its group."""
    width = int(grid.value(node.args[3]))
    place = _lane(grid)
    there = place + int(grid.value(node.args[2]))
    return _taken(grid, node, np.where(there // width == place // width, there, place))


def shuffle(grid: Any, node: Call) -> np.ndarray:
    """What one lane of its group has; the number counts within the group."""
    width = int(grid.value(node.args[3]))
    return _taken(grid, node, _lane(grid) // width * width + grid.value(node.args[2]) % width)


def _lane(grid: Any) -> np.ndarray:
    return np.arange(grid.block.size) % grid.threads % LANES


def _taken(grid: Any, node: Call, lanes: np.ndarray) -> np.ndarray:
    """Not a number where that lane does not take part, as nothing says what it is then."""
    mask, value = (np.broadcast_to(grid.value(part), grid.block.shape) for part in node.args[:2])
    places = np.arange(grid.block.size)
    source = places + lanes - _lane(grid)
    # The last warp of a block may have fewer lanes.
    there = (source < places.size) & (source // grid.threads == grid.block)
    source = np.where(there, source, 0)
    return np.where(there & mask[source], value[source], np.nan).astype(value.dtype)


SHUFFLES = {
    "tvm_warp_activemask": activemask,
    "tvm_warp_shuffle": shuffle,
    "tvm_warp_shuffle_down": shuffle_down,
}
