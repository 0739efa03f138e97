"""Conversion of TensorFlow Lite's operators, where TVM's own converter cannot do it.

Shapes in a file are fixed, so that what is computed from them and from constants is known while converting.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tflite import SqueezeOptions
from tvm import ir, relax
from tvm.relax.frontend.tflite.tflite_frontend import get_tensor_name

from relay_layout.frontend.tflite.blocks import batch_to_space, space_to_batch
from relay_layout.frontend.tflite.quantized import numbers
from relay_layout.frontend.tflite.replaced import ReplacedConverter
from relay_layout.ir import is_static, shape_of

Array = NDArray[Any]

MOST_FOLDED = 4096
"""Elements of the largest result that is computed at once: shapes, places and tables, not weights."""


class Converter(ReplacedConverter):
    """TVM's converter, with constants folded on the way.

    Weights in bytes between real numbers ("dynamic range quantization") are taken for the numbers that they
    stand for. TensorFlow Lite rounds data to bytes as well, so that its results are less precise.
    """

    convert_map: dict[str, Callable[..., Any]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        own = {
            "BATCH_TO_SPACE_ND": self._blocks(batch_to_space),
            "CAST": self._complex(self._real_part, self.convert_map["CAST"]),
            "EXPAND_DIMS": self._expand_dims,
            "RESHAPE": self._complex(self._reshaped_pairs, self.convert_map["RESHAPE"]),
            "RFFT2D": self._real_fourier_transform,
            "SHAPE": self._shape,
            "SPACE_TO_BATCH_ND": self._blocks(space_to_batch),
            "SQUEEZE": self._complex(self._squeezed_pairs, self.convert_map["SQUEEZE"]),
        }
        self.convert_map = {
            name: self._folding(self.of_integers(name, convert))
            for name, convert in {**self.convert_map, **self.replaced(), **own}.items()
        }

    def check_unsupported_ops(self) -> None:
        """ValueError for a graph that keeps state between calls; else as TVM's."""
        names = {
            self.get_op_code_str(self.subgraph.Operators(place))
            for place in range(self.subgraph.OperatorsLength())
        }
        if "ASSIGN_VARIABLE" in names:
            raise ValueError(
                "ASSIGN_VARIABLE keeps state between calls: "
                "convert the model with state as inputs and outputs"
            )
        super().check_unsupported_ops()

    def get_expr(self, index: int) -> Any:
        """The expression of a tensor; also of one that is a constant in the file."""
        if self.has_expr(index):
            return super().get_expr(index)
        return self.get_tensor_expr(self.get_tensors([index])[0])

    def get_tensor_value(self, tensor: Any, is_sparse: bool = False) -> Array:
        """The value of a tensor that is known while converting."""
        known = self.prefetched_nodes.get(get_tensor_name(self.subgraph, tensor.tensor_idx))
        if known is not None:
            return known
        if not isinstance(tensor.buffer.DataAsNumpy(), np.ndarray) and _elements(tensor):
            name = (tensor.tensor.Name() or b"").decode("utf-8", "replace")
            raise ValueError(f"tensor '{name}' must be a constant: what depends on data cannot give a shape")
        return super().get_tensor_value(tensor, is_sparse)

    def get_tensor_shape(self, tensor: Any) -> Any:
        """The shape of a tensor as it was computed: a file may say 1 for what it leaves open."""
        name = get_tensor_name(self.subgraph, tensor.tensor_idx)
        known = self.prefetched_nodes.get(name)
        if known is not None:
            return list(known.shape)
        found = shape_of(self.exp_tab.get_expr(name)) if self.exp_tab.has_expr(name) else None
        if found is None or not is_static(found):
            return super().get_tensor_shape(tensor)
        paired = self.get_tensor_type_str(tensor.tensor.Type()) == "complex64"
        return list(found[:-1] if paired else found)

    def get_input_tensors(self, op: Any) -> list[Any]:
        """The operands of an operator; weights in bytes of one on real numbers as real numbers."""
        tensors = super().get_input_tensors(op)
        results = self.get_output_tensors(op)
        if any(tensor.qnn_params for tensor in (*tensors[:1], *results)):
            return tensors
        for tensor in tensors[1:]:
            if tensor.qnn_params and isinstance(tensor.buffer.DataAsNumpy(), np.ndarray):
                self._as_real(tensor)
        return tensors

    def _as_real(self, tensor: Any) -> None:
        name = get_tensor_name(self.subgraph, tensor.tensor_idx)
        if not self.exp_tab.has_expr(name):
            value = self.get_tensor_value(tensor).astype("float32")
            scale, zero_point = (numbers(tensor.qnn_params[part]) for part in ("scale", "zero_point"))
            along = [1] * value.ndim
            along[int(tensor.qnn_params["axis"]) if scale.size > 1 else 0] = -1
            real = (value - zero_point.reshape(-1)[0]) * scale.reshape(along if scale.size > 1 else [])
            self.exp_tab.set_expr(name, relax.const(real.astype("float32")))
        tensor.qnn_params = None

    def _folding(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """A converter of which small results of constants alone are kept as arrays."""

        def converted(op: Any) -> Any:
            result = convert(op=op)
            outputs = self.get_output_tensors(op)
            if not isinstance(result, relax.Expr) or any(output.qnn_params for output in outputs):
                return result
            if sum(map(_elements, outputs)) > MOST_FOLDED or relax.analysis.free_vars(result):
                return result
            values = _computed(result)
            if len(values) != len(outputs):
                return result
            for output, value in zip(outputs, values, strict=True):
                self.set_prefetched_node(output.tensor_idx, value)
            return None

        return converted

    def _blocks(self, convert: Callable[..., Any]) -> Callable[..., Any]:
        """A converter of blocks whose sizes, and what is added or taken off, are constants."""

        def converted(op: Any) -> Any:
            data, *given = self.get_input_tensors(op)
            block, sides = (self.get_tensor_value(tensor).tolist() for tensor in given)
            return convert(self.bb.normalize, self.get_tensor_expr(data), block, sides)

        return converted

    def _expand_dims(self, op: Any) -> Any:
        data, axis = self.get_input_tensors(op)
        place = int(self.get_tensor_value(axis).reshape(-1)[0])
        return relax.op.expand_dims(self.get_tensor_expr(data), [place])

    def _shape(self, op: Any) -> Any:
        (data,), (result,) = self.get_input_tensors(op), self.get_output_tensors(op)
        dtype = self.get_tensor_type_str(result.tensor.Type())
        return relax.const(np.array([int(extent) for extent in self.get_tensor_shape(data)], dtype), dtype)

    def _complex(self, convert: Callable[..., Any], otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """A converter that does something else for complex numbers, which are pairs of real ones here."""

        def converted(op: Any) -> Any:
            data = self.get_input_tensors(op)[0]
            if self.get_tensor_type_str(data.tensor.Type()) != "complex64":
                return otherwise(op=op)
            return convert(op, self.get_tensor_expr(data))

        return converted

    def _reshaped_pairs(self, op: Any, pairs: Any) -> Any:
        (result,) = self.get_output_tensors(op)
        shape = [result.tensor.Shape(axis) for axis in range(result.tensor.ShapeLength())]
        return relax.op.reshape(pairs, [*shape, 2])

    def _squeezed_pairs(self, op: Any, pairs: Any) -> Any:
        options = SqueezeOptions()
        options.Init(op.BuiltinOptions().Bytes, op.BuiltinOptions().Pos)
        axes = [options.SqueezeDims(place) for place in range(options.SqueezeDimsLength())]
        gone = [axis if axis >= 0 else axis - 1 for axis in axes]
        if not gone:
            gone = [axis for axis, extent in enumerate((shape_of(pairs) or ())[:-1]) if extent == 1]
        return relax.op.squeeze(pairs, gone)

    def _real_part(self, op: Any, pairs: Any) -> Any:
        (result,) = self.get_output_tensors(op)
        # A cast drops the imaginary part.
        real = relax.op.take(pairs, relax.const(0, "int64"), axis=-1)
        return relax.op.astype(real, self.get_tensor_type_str(result.tensor.Type()))

    def _real_fourier_transform(self, op: Any) -> Any:
        """Of rows a product with the transform's matrix; of images TVM's own transform."""
        data, length = self.get_input_tensors(op)
        shape = [int(extent) for extent in self.get_tensor_shape(data)]
        rows, columns = (int(extent) for extent in self.get_tensor_value(length).reshape(-1))
        if rows != 1 or shape[-2:] != [1, columns]:
            return self.convert_rfft2d(op)
        turns = np.outer(np.arange(columns), np.arange(columns // 2 + 1)) % columns * (2 * np.pi / columns)
        matrix = np.stack([np.cos(turns), -np.sin(turns)], -1).reshape(columns, -1).astype("float32")
        pairs = relax.op.matmul(self.get_tensor_expr(data), relax.const(matrix))
        return relax.op.reshape(self.bb.normalize(pairs), [*shape[:-1], columns // 2 + 1, 2])


def _elements(tensor: Any) -> int:
    """How many elements the file says that a tensor has; a shape left out is that of one number."""
    return math.prod(tensor.tensor.Shape(axis) for axis in range(tensor.tensor.ShapeLength()))


def _computed(expression: Any) -> list[Array]:
    """The values of an expression of constants, one or those of a tuple; none where TVM finds none."""
    builder = relax.BlockBuilder()
    with builder.function("main", []):
        with builder.dataflow():
            result = builder.emit_output(builder.normalize(expression))
        builder.emit_func_output(result)
    folded = relax.transform.FoldConstant()(builder.finalize())["main"].body
    bindings = [binding for block in folded.blocks for binding in block.bindings]
    value = bindings[-1].value if bindings else folded.body
    fields = value.fields if isinstance(value, relax.Tuple) else [value]
    return [field.value.numpy() for field in fields if isinstance(field, ir.GenericConst)]
