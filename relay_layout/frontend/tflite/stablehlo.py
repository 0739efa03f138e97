"""Operators of StableHLO in TensorFlow Lite files, as converters of PyTorch and JAX leave them there."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tflite import (
    StableHLOCompositeOptions,
    StablehloPadOptions,
    StablehloReduceWindowOptions,
    StablehloScatterOptions,
)
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import ExprTable, get_tensor_name

from relay_layout.frontend.tflite.quantized import QuantizedConverter
from relay_layout.ir import dtype_of, shape_of

_SCATTERED = {"ADD": "add", "MAXIMUM": "max", "MINIMUM": "min", "MUL": "mul", "MULTIPLY": "mul"}
"""What scatters do with what is there, by the operator of their bodies."""

_MOST_WINDOWED = 3
"""Dimensions along which windows may reach: those of pooling."""


@dataclass(frozen=True)
class _Window:
    """A window along one dimension; one that does nothing, unless it is said."""

    size: int = 1
    stride: int = 1
    dilation: int = 1
    before: int = 0
    behind: int = 0


class StablehloConverter(QuantizedConverter):
    """TVM's converter with operators of StableHLO that it takes in few cases."""

    def of_stablehlo(self) -> dict[str, Callable[..., Any]]:
        """The converters of these operators by name."""
        return {
            "STABLEHLO_COMPOSITE": self._composite,
            "STABLEHLO_PAD": self._padded,
            "STABLEHLO_REDUCE_WINDOW": self._windows,
            "STABLEHLO_SCATTER": self._scattered_windows,
        }

    def _composite(self, op: Any) -> Any:
        """An operator with a name, which the file also writes out: attributes are in what is written out."""
        options = self._get_stablehlo_options(op, StableHLOCompositeOptions)
        graph = self._graph(int(options.DecompositionSubgraphIndex()), "STABLEHLO_COMPOSITE")
        table = ExprTable()
        # Not QuantizedConverter: what is written out may hold any operator.
        inner = type(self)(self.model, graph, table, self.bb)
        operands = [self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op)]
        for place, operand in zip(range(graph.InputsLength()), operands, strict=True):
            table.set_expr(get_tensor_name(graph, int(graph.Inputs(place))), operand)
        inner.check_unsupported_ops()
        inner.convert_op_to_relax()
        results = [int(graph.Outputs(place)) for place in range(graph.OutputsLength())]
        expressions = [inner.get_tensor_expr(tensor) for tensor in inner.get_tensors(results)]
        return expressions[0] if len(expressions) == 1 else relax.Tuple(expressions)

    def _padded(self, op: Any) -> Any:
        """One number beside and between elements; fewer than none beside them take elements off."""
        data, filling = self.get_input_tensors(op)
        options = self._get_stablehlo_options(op, StablehloPadOptions)
        before, behind, between = (
            [int(width) for width in widths]
            for widths in (
                options.EdgePaddingLowAsNumpy(),
                options.EdgePaddingHighAsNumpy(),
                options.InteriorPaddingAsNumpy(),
            )
        )
        value = float(self.get_tensor_value(filling))
        result = self.bb.normalize(self.get_tensor_expr(data))
        for axis, width in enumerate(between):
            shape = [int(extent) for extent in shape_of(result) or ()]
            if width and shape[axis] > 1:
                spread = self._extended(
                    self.bb.normalize(relax.op.expand_dims(result, axis + 1)),
                    [0] * (axis + 1) + [width] + [0] * (len(shape) - axis - 1),
                    value,
                )
                shape[axis] *= width + 1
                result = self.bb.normalize(relax.op.reshape(spread, shape))
                behind[axis] -= width
        if any(width < 0 for width in (*before, *behind)):
            shape = [int(extent) for extent in shape_of(result) or ()]
            begin = [max(-width, 0) for width in before]
            end = [extent - max(-width, 0) for extent, width in zip(shape, behind, strict=True)]
            result = self.bb.normalize(relax.op.strided_slice(result, list(range(len(shape))), begin, end))
        return self._extended(result, behind, value, before)

    def _extended(self, data: Any, behind: Sequence[int], value: float, before: Sequence[int] = ()) -> Any:
        """The data with a number behind each dimension, and before it."""
        pairs = zip(before or [0] * len(behind), behind, strict=True)
        widths = [max(width, 0) for pair in pairs for width in pair]
        return self.bb.normalize(relax.op.nn.pad(data, widths, pad_value=value)) if any(widths) else data

    def _windows(self, op: Any) -> Any:
        """The largest, or the sum, of what is in windows."""
        data, start = self.get_input_tensors(op)
        options = self._get_stablehlo_options(op, StablehloReduceWindowOptions)
        body = self._get_stablehlo_simple_body_op(
            int(options.BodySubgraphIndex()), "STABLEHLO_REDUCE_WINDOW", 2
        )
        name = self.get_op_code_str(body).removeprefix("STABLEHLO_")
        image = self.bb.normalize(self.get_tensor_expr(data))
        if name not in ("ADD", "MAXIMUM") or (name == "ADD" and not dtype_of(image).startswith("float")):
            raise ValueError(f"STABLEHLO_REDUCE_WINDOW of {dtype_of(image)} by {name}")
        self._check_stablehlo_reduce_init(start, f"STABLEHLO_{name}", "STABLEHLO_REDUCE_WINDOW")
        rank = len(shape_of(image) or ())
        sizes, strides, dilations, between, widths = (
            self._get_stablehlo_i64_vector(found, [default] * count)
            for found, default, count in (
                (options.WindowDimensionsAsNumpy(), 1, rank),
                (options.WindowStridesAsNumpy(), 1, rank),
                (options.WindowDilationsAsNumpy(), 1, rank),
                (options.BaseDilationsAsNumpy(), 1, rank),
                (options.PaddingAsNumpy(), 0, 2 * rank),
            )
        )
        windows = {
            axis: _Window(size, stride, dilation, *widths[2 * axis : 2 * axis + 2])
            for axis, (size, stride, dilation) in enumerate(zip(sizes, strides, dilations, strict=True))
        }
        reaching = {axis: window for axis, window in windows.items() if window != _Window()}
        if any(extent != 1 for extent in between) or len(reaching) > _MOST_WINDOWED or min(widths) < 0:
            raise ValueError(
                "STABLEHLO_REDUCE_WINDOW with windows that reach along more than "
                f"{_MOST_WINDOWED} dimensions, negative padding or numbers between elements"
            )
        return self._pooled(image, reaching, name == "ADD") if reaching else image

    def _pooled(self, image: Any, windows: Mapping[int, "_Window"], sums: bool) -> Any:
        """Pooling along dimensions, by number; what no window reaches along are channels of one image."""
        shape = [int(extent) for extent in shape_of(image) or ()]
        still = [axis for axis in range(len(shape)) if axis not in windows]
        order = [*still, *windows]
        moved = self.bb.normalize(relax.op.permute_dims(image, order))
        channels = math.prod(shape[axis] for axis in still)
        flat = relax.op.reshape(moved, [1, channels, *(shape[axis] for axis in windows)])
        sides = list(windows.values())
        pool = getattr(relax.op.nn, f"{'avg' if sums else 'max'}_pool{len(sides)}d")
        pooled = pool(
            self.bb.normalize(flat),
            [side.size for side in sides],
            [side.stride for side in sides],
            [*(side.before for side in sides), *(side.behind for side in sides)],
            [side.dilation for side in sides],
            **({"count_include_pad": True} if sums else {}),
        )
        pooled = self.bb.normalize(pooled)
        if sums:
            count = float(math.prod(side.size for side in sides))
            pooled = self.bb.normalize(relax.op.multiply(pooled, relax.const(count, dtype_of(image))))
        ended = [int(extent) for extent in shape_of(pooled) or ()][2:]
        apart = self.bb.normalize(relax.op.reshape(pooled, [*(shape[axis] for axis in still), *ended]))
        return relax.op.permute_dims(apart, _undone(order))

    def _scattered_windows(self, op: Any) -> Any:
        """Tensors written, or added and so on, where indices into some dimensions say, whole along others."""
        data, indices, updates = (self.bb.normalize(one) for one in self._operands(op))
        options = self._get_stablehlo_options(op, StablehloScatterOptions)
        windows = self._get_stablehlo_i64_vector(options.UpdateWindowDimsAsNumpy(), [])
        indexed = self._get_stablehlo_i64_vector(options.ScatterDimsToOperandDimsAsNumpy(), [])
        inserted = self._get_stablehlo_i64_vector(options.InsertedWindowDimsAsNumpy(), [])
        shape, given, places = (
            [int(extent) for extent in shape_of(one) or ()] for one in (data, updates, indices)
        )
        whole = [axis for axis in range(len(shape)) if axis not in indexed]
        if (
            sorted(indexed) != sorted(inserted)
            or [given[axis] for axis in windows] != [shape[axis] for axis in whole]
            or int(options.IndexVectorDim()) != len(places) - 1
        ):
            raise ValueError("STABLEHLO_SCATTER of parts of dimensions that have no indices")
        scattered = [axis for axis in range(len(given)) if axis not in windows]
        result = relax.op.scatter_nd(
            self.bb.normalize(relax.op.permute_dims(data, [*indexed, *whole])),
            self.bb.normalize(relax.op.astype(indices, "int64")),
            self.bb.normalize(relax.op.permute_dims(updates, [*scattered, *windows])),
            self._scatter_mode(int(options.UpdateComputationSubgraphIndex())),
        )
        return relax.op.permute_dims(self.bb.normalize(result), _undone([*indexed, *whole]))

    def _scatter_mode(self, place: int) -> str:
        graph = self._graph(place, "STABLEHLO_SCATTER")
        if not graph.OperatorsLength() and graph.Outputs(0) == graph.Inputs(1):
            return "update"
        body = self._get_stablehlo_simple_body_op(place, "STABLEHLO_SCATTER", 2)
        name = self.get_op_code_str(body).removeprefix("STABLEHLO_")
        if name not in _SCATTERED:
            raise ValueError(f"STABLEHLO_SCATTER by {name}")
        return _SCATTERED[name]

    def _graph(self, place: int, name: str) -> Any:
        """Another graph of the file, which the operator of this name is made of."""
        if not 0 < place < self.model.SubgraphsLength():
            raise ValueError(f"{name} of graph {place}, which the file does not have")
        return self.model.Subgraphs(place)

    def _operands(self, op: Any) -> list[Any]:
        return [self.get_tensor_expr(tensor) for tensor in self.get_input_tensors(op)]


def _undone(order: Sequence[int]) -> list[int]:
    """The order of dimensions that undoes this one."""
    return sorted(range(len(order)), key=lambda place: order[place])
