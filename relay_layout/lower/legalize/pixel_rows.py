"""Pointwise convolutions of data of any size, and products of any number of rows: products of rows.

A row is a pixel of a signal, an image or a volume, or a word of a text. A tile of rows runs over the ends of
lines and of images, so that small images fill tiles as well. What follows element by element is computed of
the same rows, in one kernel with the product; between rows and images lie views alone.
"""

from functools import partial
from math import ceil, prod
from typing import Any

import numpy as np
import tvm
from tvm import relax, sym, te, tirx
from tvm.relax.expr_functor import mutator

from relay_layout.extent_polynomials import provably_equal
from relay_layout.graph.uses import count_uses
from relay_layout.ir import (
    Constant,
    Expression,
    constant,
    constant_array,
    dtype_of,
    is_static,
    operator_name,
    out_layout,
    relax_functions,
    shape_of,
    visit_functions,
)
from relay_layout.lower.dynamic_shapes.run_time_extents import extent_variable
from relay_layout.lower.fusion.patterns import INJECTIVE, PATTERN
from relay_layout.lower.legalize.byte_products import multiplies_bytes
from relay_layout.lower.legalize.convolutions import (
    call_form,
    constant_workload,
    has_dynamic_images,
    stored_weight,
)
from relay_layout.lower.legalize.packed_matrices import PackedMatrices
from relay_layout.lower.legalize.row_blocks import is_by_blocks
from relay_layout.lower.row_mutator import RowMutator
from relay_layout.ops.table import is_elementwise
from relay_layout.targets import CpuTarget
from relay_layout.targets.matrix_products import product_workload
from topi_ext.dtypes import DTYPE_BYTES
from topi_ext.ir import nodes_of
from topi_ext.knobs import ConvolutionKnobs
from topi_ext.workloads.convolution import BYTES, ConvolutionWorkload, fields_of

LAYOUTS = {"nn.conv1d": "NWC", "nn.conv2d": "NHWC", "nn.conv3d": "NDHWC"}
"""Those of data and result, by operator."""

ROWS = "NHWC"
"""The layout of rows: one image of one column."""

TYPICAL_ROWS = 64
"""Words of a text for which knobs are chosen."""

TILE_BYTES = 128
"""Bytes of a row in a tile of columns of a matrix: two vectors."""

PIECE_ROWS = 16
"""A divisor of how many rows of a matrix a piece has: all but the last one have the same kernel."""

LONGEST_SIGNAL = 256
"""Most pixels of a signal for which knobs are chosen: all threads are to have their share of a short one."""


def by_pixel_rows(module: tvm.IRModule, target: CpuTarget) -> tvm.IRModule:
    """The module with such products in the place of pointwise convolutions by constant weights."""
    if not any(map(_has_dynamic_rows, relax_functions(module).values())):
        return module
    rows = visit_functions(_PixelRows(module, target), module, _has_dynamic_rows)
    return relax.transform.DeadCodeElimination()(rows)


def _has_dynamic_rows(function: relax.Function) -> bool:
    """Whether a convolution in it reads images of a size that is not known, or a product as many rows."""
    calls = nodes_of(function.body, relax.Call)
    return any(
        has_dynamic_images(call) if operator_name(call) in LAYOUTS else _is_of_dynamic_rows(call)
        for call in calls
    )


def _is_of_dynamic_rows(call: relax.Call) -> bool:
    """Whether ``call`` is a product of an unknown number of rows by a constant matrix."""
    if operator_name(call) != "matmul":
        return False
    data, weight = call.args
    *outer, elements = shape_of(data) or (0,)
    if not isinstance(weight, Constant) or len(shape_of(weight) or ()) != 2 or elements == 0:
        return False
    if multiplies_bytes(call):
        return not is_static(outer)
    dtypes = {dtype_of(data), dtype_of(weight), dtype_of(call)}
    return len(dtypes) == 1 and dtypes <= set(DTYPE_BYTES) and is_by_blocks(data)


@mutator
class _PixelRows(RowMutator):
    """Rows are (1, pixels, 1, channels)."""

    def __init__(self, module: tvm.IRModule, target: CpuTarget) -> None:
        super().__init__(module)
        self.target = target
        self.matrices = PackedMatrices()
        self.uses: dict[str, int] = {}
        self.read_again: set[relax.Var] = set()
        """Variables that more than one call reads."""

    def visit_function_(self, function: relax.Function) -> relax.Function:
        self.uses, self.read_again = count_uses(function), set()
        return super().visit_function_(function)

    def forget(self) -> None:
        super().forget()
        self.numbers: list[tuple[Any, tirx.Var]] = []
        """Numbers of pixels, and their variables."""

    def visit_call_(self, call: relax.Call) -> Expression:
        """A view of rows where these are computed; other calls only get their new arguments."""
        read = call.args
        call = self.builder_.normalize(super().visit_call_(call))
        for variable, renamed in zip(read, call.args, strict=True):
            if isinstance(variable, relax.Var) and self.uses.get(variable.name, 0) > 1:
                self.read_again.add(renamed)
        if not isinstance(call.ty, relax.TensorType) or shape_of(call) is None:
            return call
        if operator_name(call) in LAYOUTS:
            rows = self._convolution(call) if has_dynamic_images(call) else None
        elif _is_of_dynamic_rows(call):
            rows = self._product(call)
        else:
            rows = self.elementwise(call)
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
        """Elementwise results are, which the kernel before them computes; but not what is stored anyway,
        because others read it, too.
        """
        if operand in self.read_again:
            return False
        value = self.value_of(operand)
        return value is not None and is_elementwise(operator_name(value))

    def _product(self, call: relax.Call) -> Expression | None:
        """The rows of a product by a matrix; None where instructions for matrices are better, which need
        blocks of a known number of rows.

        Long rows are cut, and what their pieces give is added up, as a tile of columns of the matrix is to
        stay in the level-2 cache.
        """
        data, weight = call.args
        rows, columns = constant_array(weight).shape
        if multiplies_bytes(call):
            plain = constant_array(weight).T[:, :, None, None]
            return _of_bytes(self.rows_of(data), plain, dtype_of(call))
        whole = self.target.float_form(_product_workload(rows, columns, dtype_of(data)))
        knobs = self.target.kernels.choose(whole, winograd=False).knobs
        if isinstance(knobs, ConvolutionKnobs) and knobs.matrix_rows:
            return None
        given, found = self.rows_of(data), None
        pieces = ceil(rows * TILE_BYTES / (self.target.processor.l2_bytes // 2))
        length = ceil(rows / pieces / PIECE_ROWS) * PIECE_ROWS
        for begin in range(0, rows, length):
            product = self._piece(given, weight, range(begin, min(begin + length, rows)))
            if found is not None:
                product = relax.op.add(self.builder_.emit(product), self.builder_.emit(found))
            found = product
        return found

    def _piece(self, rows: Expression, matrix: Constant, part: range) -> Expression:
        """What those elements of ``rows`` give that meet a part of the matrix."""
        elements, columns = constant_array(matrix).shape
        if len(part) < elements:
            cut = relax.op.strided_slice(rows, [3], [part.start], [part.stop], assume_inbound=True)
            rows = self.builder_.emit(cut)
        workload = _product_workload(len(part), columns, dtype_of(matrix))
        form = self.target.float_form(workload, any_size=True)
        return call_form(self.builder_, "dense", form, rows, self.matrices.packed(matrix, form, part.start))

    def _convolution(self, call: relax.Call) -> Expression | None:
        """The rows of a pointwise convolution; None for others."""
        data, weight = call.args
        attributes, shape, layout = call.attrs, shape_of(data) or (), LAYOUTS[operator_name(call)]
        layouts = {str(attributes.data_layout), out_layout(attributes)}
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
        if dtype_of(data) in BYTES:
            return _of_bytes(self.rows_of(data), plain, dtype_of(call))
        workload = _of_rows(typical, layout[1:-1])
        form = self.target.float_form(workload, any_size=True)
        stored = constant(stored_weight(plain, form))
        return call_form(self.builder_, "conv2d", form, self.rows_of(data), stored)

    def _pixels(self, image: Expression) -> tirx.Var:
        """How many there are; one variable for each number."""
        number = sym.Analyzer().simplify(prod((shape_of(image) or ())[:-1]))
        if isinstance(number, tirx.Var):
            return number
        for known, variable in self.numbers:
            if provably_equal([known], [number]):
                return variable
        pixels = extent_variable(self.builder_, image, lambda data: prod(data.shape[:-1]), "pixels")
        self.numbers.append((number, pixels))
        return pixels


def _of_bytes(rows: Expression, weight: np.ndarray, dtype: str) -> relax.Call:
    """A convolution by an OIHW weight, which is lowered as all of bytes are."""
    options = {"data_layout": ROWS, "kernel_layout": "OIHW", "out_layout": ROWS}
    return relax.op.nn.conv2d(rows, constant(weight), out_dtype=dtype, **options)


def _product_workload(elements: int, columns: int, dtype: str) -> ConvolutionWorkload:
    """The product of a typical number of rows of so many elements by a matrix."""
    return product_workload((1, TYPICAL_ROWS, 1, elements), columns, dtype)


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
