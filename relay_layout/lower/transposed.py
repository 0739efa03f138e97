"""Transposed convolutions at the speed of convolutions: a convolution of all phases, then a copy.

Where the kernel is no multiple of the stride, taps that do not exist are zeros. As with padding, infinite
data becomes NaN there.
"""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from relay_layout.ir import Constant, Expression, constant, constant_array, operator_name, shape_of
from relay_layout.layout_transform import apply
from relay_layout.targets.convolutions import convolution_with
from relay_layout.targets.phases import Phases, phases_of
from topi_ext.indexing import BlockedCoordinate, Coordinate, block_of, physical_axes, physical_index

_OPERATORS = {"nn.conv1d": relax.op.nn.conv1d, "nn.conv2d": relax.op.nn.conv2d}


def phased_call(
    builder: relax.BlockBuilder,
    call: relax.Call,
    convolve: Callable[[relax.BlockBuilder, relax.Call], Expression],
) -> Expression | None:
    """A transposed convolution with a constant weight as phases; None where it must keep its loops.

    ``convolve`` lowers calls of nn.conv1d and nn.conv2d.
    """
    data, weight = call.args
    attributes = call.attrs
    if not isinstance(weight, Constant):
        return None
    kernel_layout, data_layout = str(attributes.kernel_layout), str(attributes.data_layout)
    out_layout = str(attributes.out_layout or data_layout)
    shapes = [_logical(data, data_layout), _logical(weight, kernel_layout)]
    del shapes
    return None
