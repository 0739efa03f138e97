"""Operators of TensorFlow Lite for which TVM's converter has nothing, or nothing that can be run."""

from collections.abc import Callable
from typing import Any

import numpy as np
from tflite import CumsumOptions, MirrorPadOptions, ResizeNearestNeighborOptions
from tvm import relax, topi

from relay_layout.frontend.tflite.quantized import QuantizedConverter
from relay_layout.ir import dtype_of, shape_of

_SYMMETRIC = 1


class ReplacedConverter(QuantizedConverter):
    """TVM's converter with operators of its own."""

    def replaced(self) -> dict[str, Callable[..., Any]]:
        """The converters of these operators by name."""
        return {
            "BITCAST": self._bits,
            "CUMSUM": self._cumulative_sum,
            "MATRIX_DIAG": self._diagonal_matrices,
            "MATRIX_SET_DIAG": self._with_diagonals,
            "MIRROR_PAD": self._mirrored,
            "RESIZE_NEAREST_NEIGHBOR": self._nearest,
            "SCATTER_ND": self._scattered,
        }

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

    def _expressions(self, op: Any) -> list[Any]:
        return [self.bb.normalize(self.get_tensor_expr(tensor)) for tensor in self.get_input_tensors(op)]


def _options(kind: Callable[[], Any], op: Any) -> Any:
    options = kind()
    options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
    return options
