"""Operators of quantized tensors for which TVM's converter has none of integers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import ir, relax
from tvm.relax.frontend.tflite.tflite_frontend import OperatorConverter, get_tensor_name

from relay_layout.frontend.tflite.stored import unpacked

_MOVED = frozenset(
    {
        "BATCH_TO_SPACE_ND",
        "BROADCAST_TO",
        "DEPTH_TO_SPACE",
        "EXPAND_DIMS",
        "FILL",
        "GATHER",
        "GATHER_ND",
        "PACK",
        "RESIZE_NEAREST_NEIGHBOR",
        "REVERSE_SEQUENCE",
        "REVERSE_V2",
        "SELECT",
        "SELECT_V2",
        "SLICE",
        "SPACE_TO_DEPTH",
        "SPLIT",
        "SPLIT_V",
        "SQUEEZE",
        "STRIDED_SLICE",
        "TILE",
        "TOPK_V2",
        "TRANSPOSE",
        "UNPACK",
    }
)
"""Operators whose results are elements of their operands: integers, if all stand for the same numbers."""

_COMPUTED = frozenset(
    {
        "ADD_N",
        "ARG_MAX",
        "ARG_MIN",
        "BATCH_MATMUL",
        "CUMSUM",
        "ELU",
        "GELU",
        "L2_NORMALIZATION",
        "LOCAL_RESPONSE_NORMALIZATION",
        "MIRROR_PAD",
        "PAD",
        "PADV2",
        "PRELU",
        "SPACE_TO_BATCH_ND",
        "SQUARE",
        "ZEROS_LIKE",
    }
)
"""Operators between the numbers that integers stand for and a result that is quantized again."""

_OF_INTEGERS = frozenset({"MATRIX_DIAG", "MATRIX_SET_DIAG", "SCATTER_ND"})
"""Operators that TensorFlow Lite computes on integers, zeros among them, whatever numbers they stand for."""

_QUANTIZED = ("int8", "uint8", "int16")


class QuantizedConverter(OperatorConverter):
    """TVM's converter, of which operators of real numbers serve quantized tensors."""

    _SUPPORTED_QUANTIZED_OPS = OperatorConverter._SUPPORTED_QUANTIZED_OPS | _MOVED | _COMPUTED | _OF_INTEGERS
    _is_bare = False
    _is_real = False

    def get_tensors(self, tensors_idx_list: Any) -> list[Any]:
        """The tensors of these numbers; constants of four bits as bytes."""
        return [unpacked(tensor) for tensor in super().get_tensors(tensors_idx_list)]

    def get_input_tensors(self, op: Any) -> list[Any]:
        """The operands of an operator; as real numbers while it is converted so."""
        return self._as_seen(super().get_input_tensors(op))

    def get_output_tensors(self, op: Any) -> list[Any]:
        """The results of an operator; as real numbers while it is converted so."""
        return self._as_seen(super().get_output_tensors(op))

    def get_tensor_type_str(self, tensor_type: int) -> str:
        """The element type of a tensor; that of real numbers while quantized ones are converted so."""
        found = str(super().get_tensor_type_str(tensor_type))
        return "float32" if self._is_real and found in _QUANTIZED else found

    def has_same_qnn_params(self, lhs_tensor: Any, rhs_tensor: Any) -> bool:
        """Whether integers of two tensors stand for the same numbers; scales of int16 are tiny."""
        sides = (lhs_tensor.qnn_params, rhs_tensor.qnn_params)
        pairs = ([numbers(side[part]) for side in sides] for part in ("scale", "zero_point"))
        return all(np.allclose(left, right, rtol=1e-6, atol=0) for left, right in pairs)

    def dequantize(self, expr: Any, tensor: Any) -> Any:
        """The numbers that integers stand for; biases beside data of int16 are constants of int64."""
        if not isinstance(expr, ir.GenericConst) or expr.value.dtype != "int64":
            return super().dequantize(expr, tensor)
        value = expr.value.numpy()
        scale = numbers(tensor.qnn_params["scale"]).astype("float64")
        return relax.const((value * scale).astype("float32"))

    def _as_seen(self, tensors: list[Any]) -> list[Any]:
        if self._is_bare:
            for tensor in tensors:
                tensor.qnn_params = None
        return tensors

    def of_integers(self, name: str, convert: Callable[..., Any]) -> Callable[..., Any]:
        """A converter that takes quantized tensors as well, of the operator of this name."""
        if name not in _MOVED | _COMPUTED | _OF_INTEGERS:
            return convert

        def converted(op: Any) -> Any:
            results = OperatorConverter.get_output_tensors(self, op)
            operands = [
                tensor for tensor in OperatorConverter.get_input_tensors(self, op) if tensor.qnn_params
            ]
            quantized = [*operands, *(tensor for tensor in results if tensor.qnn_params)]
            if not quantized:
                return convert(op=op)
            first = quantized[0]
            alike = name in _MOVED and all(self.has_same_qnn_params(first, tensor) for tensor in quantized)
            if alike or name in _OF_INTEGERS:
                with self._bare({}):
                    return convert(op=op)
            reals = {
                get_tensor_name(self.subgraph, tensor.tensor_idx): self.dequantize(
                    self.get_tensor_expr(tensor), tensor
                )
                for tensor in operands
            }
            with self._bare(reals):
                found = self.bb.normalize(convert(op=op))
            if len(results) == 1:
                return self.quantize(found, results[0]) if results[0].qnn_params else found
            parts = (self.bb.normalize(found[place]) for place in range(len(results)))
            return relax.Tuple(
                [self.quantize(part, result) for part, result in zip(parts, results, strict=True)]
            )

        return converted

    @contextmanager
    def _bare(self, reals: Mapping[str, Any]) -> Iterator[None]:
        """Tensors are not quantized, and those of these names are the real numbers given here."""
        self._is_bare, self._is_real = True, bool(reals)
        try:
            with self.standing_for(reals):
                yield
        finally:
            self._is_bare = self._is_real = False

    @contextmanager
    def standing_for(self, expressions: Mapping[str, Any]) -> Iterator[None]:
        """Tensors of these names are what is given here."""
        known = {name: self.exp_tab.exprs.get(name) for name in expressions}
        self.exp_tab.exprs.update((name, self.bb.normalize(one)) for name, one in expressions.items())
        try:
            yield
        finally:
            for name, expression in known.items():
                del self.exp_tab.exprs[name]
                if expression is not None:
                    self.exp_tab.exprs[name] = expression


def numbers(value: Any) -> NDArray[Any]:
    """A scale or a zero point, which TVM's converter holds as a constant."""
    return np.asarray(value.value.numpy() if isinstance(value, ir.GenericConst) else value)
