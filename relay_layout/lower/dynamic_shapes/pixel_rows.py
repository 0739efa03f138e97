"""Pointwise convolutions of data of any size: products of rows, one for each pixel of all images.

Pixels are those of signals, images and volumes. A tile of rows runs over the ends of lines and of images, so
that small images fill tiles as well. What follows element by element is computed of the same rows, in one
kernel with the product; between rows and images lie views alone.
"""

from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import relax, sym, te, tirx
from tvm.relax.expr_functor import mutator
from tvm_ffi import structural_equal

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    is_static,
    operator_name,
    relax_functions,
    shape_of,
    visit_functions,
)
from relay_layout.lower.dynamic_shapes.run_time_extents import extent_variable
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.convolutions import (
    call_form,
    constant_workload,
    has_dynamic_images,
    stored_weight,
)
from relay_layout.lower.row_mutator import RowMutator
from relay_layout.ops.table import is_elementwise
from relay_layout.targets import CpuTarget
from topi_ext.ir import nodes_of
from topi_ext.workload import BYTES, ConvolutionWorkload, fields_of

LAYOUTS = {"nn.conv1d": "NWC", "nn.conv2d": "NHWC", "nn.conv3d": "NDHWC"}
"""Those of data and result, by operator."""

ROWS = "NHWC"
"""The layout of rows: one image of one column."""

LONGEST_SIGNAL = 256
"""Most pixels of a signal for which knobs are chosen: all threads are to have their share of a short one."""


def by_pixel_rows(module: tvm.IRModule, target: CpuTarget) -> tvm.IRModule:
    """The module with such products in the place of pointwise convolutions by constant weights."""
    if not any(map(_convolves_dynamic_images, relax_functions(module).values())):
        return module
    rows = visit_functions(_PixelRows(module, target), module, _convolves_dynamic_images)
    return relax.transform.DeadCodeElimination()(rows)


def _convolves_dynamic_images(function: relax.Function) -> bool:
    """Whether a convolution in it reads images of a size that is not known."""
    calls = nodes_of(function.body, relax.Call)
    return any(operator_name(call) in LAYOUTS and has_dynamic_images(call) for call in calls)


@mutator
class _PixelRows(RowMutator):
    """Rows are (1, pixels, 1, channels)."""

    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        super().__init__(module)
        self.target = target

    def forget(self) -> None:
        super().forget()
        self.numbers: list[tuple[Any, tirx.Var]] = []
        """Numbers of pixels, and their variables."""

    def visit_call_(self, call: relax.Call) -> Expression:
        """A view of rows where these are computed; other calls only get their new arguments."""
        call = self.builder_.normalize(super().visit_call_(call))
        shape = shape_of(call) if isinstance(call.ty, relax.TensorType) else None
        if shape is None or len(shape) < len("NWC") or is_static(shape[1:]):
            return call
        rows = self._product(call) if operator_name(call) in LAYOUTS else self.elementwise(call)
        return call if rows is None else self.view(call, rows)

    def new_rows(self, data: Expression) -> Expression:
        channels = (shape_of(data) or ())[-1]
        return self.builder_.emit(relax.op.reshape(data, [1, self._pixels(data), 1, channels]))

    def broadcast(self, operand: Expression) -> Expression:
        shape = shape_of(operand) or ()
        if len(shape) <= len(ROWS):
            return operand
        along = [*(1,) * (len(ROWS) - 1), shape[-1]]
        if isinstance(operand, Constant):
            return constant(constant_array(operand).reshape(along))
        return self.builder_.emit(relax.op.reshape(operand, along))

    def is_joined(self, operand: Expression) -> bool:
        value = self.value_of(operand)
        return value is not None and is_elementwise(operator_name(value))

    def _product(self, call: relax.Call) -> Expression | None:
        """The rows of a pointwise convolution; None for others."""
        data, weight = call.args
        attributes, shape, layout = call.attrs, shape_of(data) or (), LAYOUTS[operator_name(call)]
        layouts = {str(attributes.data_layout), str(attributes.out_layout or attributes.data_layout)}
        if layouts != {layout} or not isinstance(weight, Constant):
            return None
        if int(attributes.groups) != 1 or any(map(int, attributes.padding)) or not isinstance(shape[-1], int):
            return None
        found = constant_workload(call, any_size=True)
        if found is None or found[0].taps != 1:
            return None
        strides = [int(stride) for stride in attributes.strides]
        if max(strides) > 1:
            read = relax.ShapeExpr([*(shape_of(call) or ())[:-1], shape[-1]])
            pixels = self.builder_.call_te(
                partial(_every, strides=strides),
                data,
                read,
                primfunc_name_hint="every_pixel_read",
                primfunc_attrs={PATTERN: INJECTIVE},
            )
            data = self.builder_.emit(pixels)
        typical, plain = found
        plain = plain.reshape(*plain.shape[:2], 1, 1)
        if str(data.ty.dtype) in BYTES:
            # Those become products of bytes, as all of them do.
            options = {"data_layout": ROWS, "kernel_layout": "OIHW", "out_layout": ROWS}
            return relax.op.nn.conv2d(
                self.rows_of(data), constant(plain), out_dtype=str(call.ty.dtype), **options
            )
        workload = _of_rows(typical, layout[1:-1])
        form = self.target.float_form(workload)
        stored = constant(stored_weight(plain, form))
        return call_form(self.builder_, "conv2d", form, self.rows_of(data), stored)

    def _pixels(self, image: Expression) -> tirx.Var:
        """How many there are; one variable for each number."""
        number = sym.Analyzer().simplify(prod((shape_of(image) or ())[:-1]))
        for known, variable in self.numbers:
            if structural_equal(known, number):
                return variable
        pixels = extent_variable(self.builder_, image, lambda data: prod(data.shape[:-1]), "pixels")
        self.numbers.append((number, pixels))
        return pixels


def _of_rows(pointwise: ConvolutionWorkload, spatial: str) -> ConvolutionWorkload:
    """A pointwise convolution over ``spatial`` axes as that of an image of one column."""
    pixels = int(pointwise.out_depth) * int(pointwise.out_height) * int(pointwise.out_width)
    if spatial == "W":
        pixels = min(pixels, LONGEST_SIGNAL)
    image = {"operator": "conv2d", "batch": 1, "in_height": pixels, "in_width": 1, "strides": (1, 1)}
    layouts = {"data_layout": ROWS, "out_layout": ROWS}
    layouts["kernel_layout"] = pointwise.kernel_layout.replace(spatial, "HW")
    return ConvolutionWorkload(**{**fields_of(pointwise), **image, **layouts})


def _every(data: te.Tensor, shape: Any, strides: list[int]) -> te.Tensor:
    """The pixels that lie ``strides`` apart, as many as ``shape`` says."""

    def element(image: Any, *place: Any) -> Any:
        *pixel, channel = place
        return data(image, *(at * stride for at, stride in zip(pixel, strides, strict=True)), channel)

    return te.compute(list(shape), element, name="every_pixel_read")


__all__ = ["by_pixel_rows"]
