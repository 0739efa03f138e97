"""Small quantized networks in ONNX's QDQ form, and how far a runtime's integers are from ONNX Runtime's."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import relay_layout
from tests.onnx_reference import reference_session


class QdqGraph:
    """A graph under construction; every value is the name of a dequantized tensor.

    ``activations`` is the dtype of quantized activations; scales and zero points come from ``seed``.
    """

    def __init__(self, activations: str = "uint8", seed: int = 0) -> None:
        self.activations = activations
        self.random = np.random.default_rng(seed)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []

    def input(
        self, name: str, shape: Sequence[int], *, scale: float = 0.02, zero_point: int | None = None
    ) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape)))
        return self.requantize(name, scale, zero_point)

    def constant(self, array: np.ndarray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, operator: str, operands: Sequence[str], **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(
            helper.make_node(operator, list(operands), [name], name=f"n{len(self.nodes)}", **attributes)
        )
        return name

    def requantize(self, value: str, scale: float = 0.05, zero_point: int | None = None) -> str:
        """Quantized and dequantized; the zero point lies in the middle unless it is given."""
        if zero_point is None:
            zero_point = 117 if self.activations == "uint8" else -11
        parameters = [
            self.constant(np.array(scale, "float32")),
            self.constant(np.array(zero_point, self.activations)),
        ]
        quantized = self.node("QuantizeLinear", [value, *parameters])
        return self.node("DequantizeLinear", [quantized, *parameters])

    def weight(
        self, shape: Sequence[int], *, axis: int = 0, per_channel: bool = True, dtype: str = "int8"
    ) -> str:
        """A constant with a scale for each index along ``axis``, or one."""
        limits = np.iinfo(dtype)
        integers = self.random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        count = shape[axis] if per_channel else 1
        scales = self.random.uniform(0.001, 0.01, count).astype("float32")
        self.weight_scale = scales if per_channel else scales[0]
        zero = np.full(np.shape(self.weight_scale), 0 if dtype == "int8" else 120, dtype)
        operands = [self.constant(part) for part in (integers, np.asarray(self.weight_scale), zero)]
        return self.node("DequantizeLinear", operands, **({"axis": axis} if per_channel else {}))

    def convolution(
        self,
        value: str,
        weight_shape: Sequence[int],
        *,
        scale: float = 0.02,
        per_channel: bool = True,
        bias: bool = True,
        dtype: str = "int8",
        **attributes: Any,
    ) -> str:
        """``scale`` is that of ``value``, from which follows the bias's."""
        operands = [value, self.weight(weight_shape, per_channel=per_channel, dtype=dtype)]
        if bias:
            operands.append(self.bias(weight_shape[0], scale))
        return self.node("Conv", operands, **attributes)

    def bias(self, count: int, scale: float) -> str:
        scales = np.asarray(np.float32(scale) * self.weight_scale, "float32")
        integers = self.random.integers(-3000, 3000, count).astype("int32")
        parts = (integers, scales, np.zeros(scales.shape, "int32"))
        operands = [self.constant(part) for part in parts]
        return self.node("DequantizeLinear", operands, **({"axis": 0} if scales.ndim else {}))

    def model(self, *outputs: str) -> onnx.ModelProto:
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "qdq", self.inputs, results, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def run_both(
    model: onnx.ModelProto, folder: Path, target: Any = "native", **options: Any
) -> tuple[list[np.ndarray], list[np.ndarray], dict[str, Any]]:
    """Outputs of ours and of ONNX Runtime for random inputs, and the report of the compilation."""
    reference = reference_session(model.SerializeToString())
    random = np.random.default_rng(7)
    feeds = {
        entry.name: (1.5 * random.standard_normal(entry.shape)).astype("float32")
        for entry in reference.get_inputs()
    }
    compiled = relay_layout.compile(model, target=target, threads=2, **options)
    compiled.save(folder / "model.rla")
    ours = relay_layout.load(folder / "model.rla", threads=2).run(feeds)
    names = [entry.name for entry in reference.get_outputs()]
    return [np.asarray(ours[name]) for name in names], reference.run(names, feeds), compiled.report


def steps_apart(ours: np.ndarray, reference: np.ndarray, scale: float) -> tuple[float, float]:
    """The largest difference in steps of ``scale``, and the share of elements that differ at all."""
    steps = np.abs(ours.astype("float64") - reference) / scale
    return float(steps.max()), float((steps > 0.5).mean())
