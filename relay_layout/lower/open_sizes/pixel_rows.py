"""Pointwise convolutions of images of any size: products of rows, one for each pixel of all images.

A tile of rows runs over the ends of lines and of images, so that small images fill tiles as well. What
follows element by element is computed of the same rows, in one kernel with the product; between rows and
images lie views alone.
"""

from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import tvm
from tvm import relax, sym, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator
from tvm_ffi import structural_equal, structural_walk

from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    is_static,
    operator_name,
    shape_of,
    with_attributes,
)
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.convolutions import (
    call_form,
    constant_workload,
    has_open_images,
    stored_weight,
)
from relay_layout.lower.open_sizes.run_time_extents import extent_variable
from relay_layout.ops.table import is_elementwise
from relay_layout.targets import CpuTarget
from topi_ext.workload import BYTES

LAYOUT = "NHWC"


def by_pixel_rows(module: tvm.IRModule, target: CpuTarget) -> tvm.IRModule:
    """The module with such products in the place of pointwise convolutions by constant weights."""
    found = [pair for pair in module.functions_items() if isinstance(pair[1], relax.Function)]
    if not any(_convolves_open_images(function) for _, function in found):
        return module
    rows = _Rows(module)
    rows.target = target
    for variable, function in found:
        if _convolves_open_images(function):
            rows.made, rows.numbers = set(), []
            rows.builder_.update_func(variable, rows.visit_expr(function))
    return relax.transform.DeadCodeElimination()(rows.builder_.get())


def _convolves_open_images(function: relax.Function) -> bool:
    """Whether a convolution in it reads images of a size that is not known."""
    found: list[relax.Call] = []

    def visit(call: relax.Call) -> None:
        if operator_name(call) == "nn.conv2d" and has_open_images(call):
            found.append(call)

    structural_walk(function.body, (relax.Call, visit))
    return bool(found)


@mutator
class _Rows(PyExprMutator):
    target: CpuTarget
    made: set[Expression]
    """Tensors of rows, (1, pixels, 1, channels), of which there are views that are images."""
    numbers: list[tuple[Any, tirx.Var]]
    """Numbers of pixels, and their variables."""

    def visit_call_(self, call: relax.Call) -> Expression:
        """A view of rows where these are computed; other calls only get their new arguments."""
        call = self.builder_.normalize(super().visit_call_(call))
        shape = shape_of(call) if isinstance(call.ty, relax.TensorType) else None
        if shape is None or len(shape) != len(LAYOUT) or is_static(shape[1:]):
            return call
        rows = self._product(call) if operator_name(call) == "nn.conv2d" else self._elementwise(call)
        if rows is None:
            return call
        rows = self.builder_.emit(rows)
        self.made.add(rows)
        return relax.op.reshape(rows, relax.ShapeExpr(list(shape)))

    def _product(self, call: relax.Call) -> Expression | None:
        """The rows of a pointwise convolution; None for others."""
        data, weight = call.args
        attributes, shape = call.attrs, shape_of(data) or ()
        layouts = {str(attributes.data_layout), str(attributes.out_layout or attributes.data_layout)}
        if layouts != {LAYOUT} or not isinstance(weight, Constant):
            return None
        if int(attributes.groups) != 1 or any(map(int, attributes.padding)) or not isinstance(shape[-1], int):
            return None
        found = constant_workload(call, any_size=True)
        if found is None or found[0].taps != 1:
            return None
        strides = [int(stride) for stride in attributes.strides]
        if strides != [1, 1]:
            read = relax.ShapeExpr([*(shape_of(call) or ())[:-1], shape[-1]])
            pixels = self.builder_.call_te(
                partial(_every, strides=strides),
                data,
                read,
                primfunc_name_hint="every_pixel_read",
                primfunc_attrs={PATTERN: INJECTIVE},
            )
            data = self.builder_.emit(pixels)
        if str(data.ty.dtype) in BYTES:
            # Those become products of bytes, as all of them do.
            options = {"data_layout": LAYOUT, "kernel_layout": str(attributes.kernel_layout)}
            return relax.op.nn.conv2d(
                self._rows_of(data), weight, out_layout=LAYOUT, out_dtype=str(call.ty.dtype), **options
            )
        usual, plain = found
        usual_pixels = int(usual.out_height) * int(usual.out_width)
        workload = replace(usual, batch=1, in_height=usual_pixels, in_width=1, strides=(1, 1))
        form = self.target.float_form(workload)
        stored = constant(stored_weight(plain, form))
        return call_form(self.builder_, "conv2d", form, self._rows_of(data), stored)

    def _elementwise(self, call: relax.Call) -> Expression | None:
        """The rows of what is computed element by element of rows; None for others."""
        if not is_elementwise(operator_name(call)):
            return None
        if all(self._made_of(argument) is None for argument in call.args):
            return None
        arguments = []
        for argument in call.args:
            if not isinstance(argument.ty, relax.TensorType):
                arguments.append(argument)
            elif _is_same(argument, call):
                if self._made_of(argument) is None and self._is_elementwise(argument):
                    # It is joined with what computes that.
                    return None
                arguments.append(self._rows_of(argument))
            elif all(extent == 1 for extent in (shape_of(argument) or ("unknown",))[:-1]):
                # One element for each channel.
                arguments.append(argument)
            else:
                return None
        return with_attributes(call, arguments)

    def _is_elementwise(self, image: Expression) -> bool:
        value = self.lookup_binding(image) if isinstance(image, relax.Var) else None
        return isinstance(value, relax.Call) and is_elementwise(operator_name(value))

    def _rows_of(self, image: Expression) -> Expression:
        """The rows of an image: those of which it is a view, or a view of it."""
        made = self._made_of(image)
        if made is not None:
            return made
        channels = (shape_of(image) or ())[-1]
        return self.builder_.emit(relax.op.reshape(image, [1, self._pixels(image), 1, channels]))

    def _pixels(self, image: Expression) -> tirx.Var:
        """How many there are; one variable for each number."""
        number = sym.Analyzer().simplify(prod((shape_of(image) or ())[:-1]))
        for known, variable in self.numbers:
            if structural_equal(known, number):
                return variable
        pixels = extent_variable(self.builder_, image, lambda data: prod(data.shape[:-1]), "pixels")
        self.numbers.append((number, pixels))
        return pixels

    def visit_dataflow_block_(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """What a block has computed, others do not see."""
        self.made, self.numbers = set(), []
        return super().visit_dataflow_block_(block)

    def _made_of(self, image: Any) -> Expression | None:
        """The rows of which ``image`` is a view; None where it is none."""
        value = self.lookup_binding(image) if isinstance(image, relax.Var) else None
        if value is None or operator_name(value) != "reshape":
            return None
        return value.args[0] if value.args[0] in self.made else None


def _every(data: te.Tensor, shape: Any, strides: list[int]) -> te.Tensor:
    """The pixels that lie ``strides`` apart, as many as ``shape`` says."""

    def element(image: Any, row: Any, column: Any, channel: Any) -> Any:
        return data(image, row * strides[0], column * strides[1], channel)

    return te.compute(list(shape), element, name="every_pixel_read")


def _is_same(argument: Expression, call: relax.Call) -> bool:
    """Whether both have the same extents."""
    shapes = shape_of(argument), shape_of(call)
    if None in shapes:
        return False
    analyzer = sym.Analyzer()
    one, other = (shape or () for shape in shapes)
    return len(one) == len(other) and all(map(analyzer.can_prove_equal, one, other))


__all__ = ["by_pixel_rows"]
