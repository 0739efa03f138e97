"""Operators of TensorFlow Lite for which TVM's converter has nothing, or nothing that can be run."""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from tflite import (
    BatchMatMulOptions,
    CumsumOptions,
    FullyConnectedOptions,
    MirrorPadOptions,
    ResizeNearestNeighborOptions,
    TransposeConvOptions,
)
from tvm import relax, topi
from tvm.relax.frontend.tflite.tflite_frontend import get_tensor_name

from relay_layout.frontend.tflite.quantized import numbers
from relay_layout.frontend.tflite.stablehlo import StablehloConverter
from relay_layout.ir import dtype_of, shape_of

_SYMMETRIC = 1

_SAME = 1
"""What custom operators call padding that gives as many pixels as strides make of each."""

_TRANSPOSED = "Convolution2DTransposeBias"
"""MediaPipe's transposed convolution, a custom operator."""


class ReplacedConverter(StablehloConverter):
    """TVM's converter with operators of its own."""

    def replaced(self) -> dict[str, Callable[..., Any]]:
        """The converters of these operators by name."""
        return {
            **self.of_stablehlo(),
            _TRANSPOSED: self._biased_transposed_convolution,
            "BATCH_MATMUL": self._products,
            "BITCAST": self._bits,
            "CUMSUM": self._cumulative_sum,
            "EMBEDDING_LOOKUP": self._rows,
            "FULLY_CONNECTED": self._connected,
            "GATHER_ND": self._gathered,
            "MATRIX_DIAG": self._diagonal_matrices,
            "MATRIX_SET_DIAG": self._with_diagonals,
            "MIRROR_PAD": self._mirrored,
            "RESIZE_NEAREST_NEIGHBOR": self._nearest,
            "SCATTER_ND": self._scattered,
            "TRANSPOSE_CONV": self._transposed_convolution,
        }

    def _products(self, op: Any) -> Any:
        """Products of matrices, whose batches are broadcast."""
        left, right = self._expressions(op)
        options = _options(BatchMatMulOptions, op)
        if options.AdjX():
            left = self.bb.normalize(_turned(left))
        if options.AdjY():
            right = self.bb.normalize(_turned(right))
        return relax.op.matmul(left, right)

    def _bits(self, op: Any) -> Any:
        """The same bits as elements of another type."""
        (data,), (result,) = self._expressions(op), self.get_output_tensors(op)
        dtype = self.get_tensor_type_str(result.tensor.Type())
        if np.dtype(dtype).itemsize != np.dtype(dtype_of(data)).itemsize:
            raise ValueError(f"BITCAST of {dtype_of(data)} to {dtype}, which has another size")
        return self.bb.call_te(topi.reinterpret, data, dtype)

    def _cumulative_sum(self, op: Any) -> Any:
        data, axis = self.get_input_tensors(op)
        options = _options(CumsumOptions, op)
        expression, place = self.get_tensor_expr(data), int(self.get_tensor_value(axis).reshape(-1)[0])
        if options.Reverse():
            expression = self.bb.normalize(relax.op.flip(expression, place))
        sums = relax.op.cumsum(expression, place, exclusive=bool(options.Exclusive()))
        return relax.op.flip(self.bb.normalize(sums), place) if options.Reverse() else sums

    def _rows(self, op: Any) -> Any:
        """Rows of a table, by their numbers."""
        places, table = self._expressions(op)
        return relax.op.take(table, places, 0)

    def _connected(self, op: Any) -> Any:
        """A product with weights, of as many rows as the data make where their dimensions are not kept."""
        data, weights, *_ = self.get_input_tensors(op)
        columns = int(self.get_tensor_shape(weights)[1])
        shape = [int(extent) for extent in self.get_tensor_shape(data)]
        if _options(FullyConnectedOptions, op).KeepNumDims() or (len(shape) == 2 and shape[1] == columns):
            return self.convert_fully_connected(op)
        rows = self.bb.normalize(relax.op.reshape(self.get_tensor_expr(data), [-1, columns]))
        with self.standing_for({get_tensor_name(self.subgraph, data.tensor_idx): rows}):
            return self.bb.normalize(self.convert_fully_connected(op))

    def _gathered(self, op: Any) -> Any:
        """Elements, or what lies along other dimensions, where the last dimension of indices says."""
        data, indices = self._expressions(op)
        return relax.op.gather_nd(data, self.bb.normalize(relax.op.astype(indices, "int64")))

    def _diagonal_matrices(self, op: Any) -> Any:
        """Vectors on the diagonals of matrices of zeros."""
        (vectors,) = self._expressions(op)
        length = int((shape_of(vectors) or ())[-1])
        return self._on_diagonals(relax.const(0, dtype_of(vectors)), vectors, length, length)

    def _with_diagonals(self, op: Any) -> Any:
        """Matrices with vectors on their diagonals."""
        matrices, vectors = self._expressions(op)
        return self._on_diagonals(matrices, vectors, *map(int, (shape_of(matrices) or ())[-2:]))

    def _on_diagonals(self, matrices: Any, vectors: Any, rows: int, columns: int) -> Any:
        # What lies beside the diagonal is not chosen, but read.
        places = np.minimum(np.arange(columns), min(rows, columns) - 1)
        spread = self.bb.normalize(relax.op.take(vectors, relax.const(places), -1))
        lying = self.bb.normalize(relax.op.expand_dims(spread, -2))
        return relax.op.where(relax.const(np.eye(rows, columns, dtype="bool")), lying, matrices)

    def _mirrored(self, op: Any) -> Any:
        """Padding by what is before and behind the edges, the edges themselves among it or not."""
        data, widths = self.get_input_tensors(op)
        result = self.get_tensor_expr(data)
        pairs = self.get_tensor_value(widths).tolist()
        if _options(MirrorPadOptions, op).Mode() != _SYMMETRIC:
            return relax.op.nn.pad(result, [width for pair in pairs for width in pair], pad_mode="reflect")
        for axis, pair in enumerate(pairs):
            if any(pair):
                extent = int((shape_of(result) or ())[axis])
                places = np.pad(np.arange(extent), pair, mode="symmetric")
                result = self.bb.normalize(relax.op.take(result, relax.const(places), axis))
        return result

    def _nearest(self, op: Any) -> Any:
        """Images of another size, of the nearest pixels: of two as near, of the later one."""
        image, size = self.get_input_tensors(op)
        options = _options(ResizeNearestNeighborOptions, op)
        coordinates, rounding = "asymmetric", "floor"
        if options.HalfPixelCenters() or options.AlignCorners():
            coordinates = "half_pixel" if options.HalfPixelCenters() else "align_corners"
            rounding = "round_prefer_ceil"
        extents = tuple(self.get_tensor_value(size).tolist())
        data = self.get_tensor_expr(image)
        return relax.op.image.resize2d(data, extents, None, "NHWC", "nearest_neighbor", coordinates, rounding)

    def _scattered(self, op: Any) -> Any:
        """Zeros with elements or rows added where indices say."""
        indices, updates, shape = self.get_input_tensors(op)
        data, places = self.get_tensor_expr(updates), self.get_tensor_expr(indices)
        zeros = self.bb.normalize(relax.op.zeros(self.get_tensor_value(shape).tolist(), dtype_of(data)))
        return relax.op.scatter_nd(zeros, places, data, "add")

    def _transposed_convolution(self, op: Any) -> Any:
        """TVM's own, which leaves out the activation."""
        activation = _options(TransposeConvOptions, op).FusedActivationFunction()
        result = self.bb.normalize(self.convert_transpose_conv(op))
        (output,) = self.get_output_tensors(op)
        if not output.qnn_params:
            return self.convert_fused_activation_function(result, activation)
        scale, zero_point = (float(numbers(output.qnn_params[part])) for part in ("scale", "zero_point"))
        return self.convert_qnn_fused_activation_function(
            result, activation, scale, int(zero_point), dtype_of(result)
        )

    def get_op_code_str(self, op: Any) -> str:
        """The name of an operator; ValueError for custom ones that are not known."""
        custom = self.model.OperatorCodes(op.OpcodeIndex()).CustomCode()
        if custom in (None, b"", b"TFLite_Detection_PostProcess"):
            return str(super().get_op_code_str(op))
        name = custom.decode("utf-8", "replace")
        if name != _TRANSPOSED:
            raise ValueError(f"custom operator '{name}' is not supported")
        return name

    def _biased_transposed_convolution(self, op: Any) -> Any:
        data, weights, bias = self._expressions(op)
        padding, across, down = struct.unpack("<3i", bytes(op.CustomOptionsAsNumpy())[:12])
        before, behind = [], []
        for extent, kernel, stride in zip(
            (shape_of(data) or ())[1:3], (shape_of(weights) or ())[1:3], (down, across), strict=True
        ):
            whole = (int(extent) - 1) * stride + int(kernel)
            left_out = whole - int(extent) * stride if padding == _SAME else 0
            if left_out < 0:
                raise ValueError(f"{_TRANSPOSED} with strides larger than its kernel is not supported")
            before.append(left_out // 2)
            behind.append(left_out - before[-1])
        result = relax.op.nn.conv2d_transpose(
            data,
            self.bb.normalize(relax.op.permute_dims(weights, [3, 0, 1, 2])),
            strides=(down, across),
            padding=(*before, *behind),
            data_layout="NHWC",
            kernel_layout="IOHW",
        )
        return relax.op.add(self.bb.normalize(result), bias)

    def _expressions(self, op: Any) -> list[Any]:
        return [self.bb.normalize(self.get_tensor_expr(tensor)) for tensor in self.get_input_tensors(op)]


def _turned(matrices: Any) -> Any:
    """The matrices of the last two dimensions, transposed."""
    *outer, rows, columns = range(len(shape_of(matrices) or ()))
    return relax.op.permute_dims(matrices, [*outer, columns, rows])


def _options(kind: Callable[[], Any], op: Any) -> Any:
    options = kind()
    options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    return options
