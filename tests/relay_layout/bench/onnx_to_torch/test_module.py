"""The torch converter against ONNX Runtime, operator by operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
torch = pytest.importorskip("torch")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from relay_layout.bench.onnx_to_torch.module import convert, to_channels_last  # noqa: E402
from relay_layout.bench.onnx_to_torch.operators import BUILDERS  # noqa: E402
from relay_layout.errors import ModelError  # noqa: E402

RANDOM = np.random.default_rng(0)
IMAGE = (1, 8, 11, 13)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(*values: int) -> np.ndarray:
    return np.asarray(values, np.int64)


@dataclass
class Case:
    """One node: its run-time inputs, the inputs stored in the model, and its attributes."""

    op: str
    inputs: Sequence[np.ndarray] = field(default_factory=lambda: [floats(*IMAGE)])
    stored: Sequence[np.ndarray | None] = ()
    attributes: dict[str, Any] = field(default_factory=dict)
    opset: int = 21
    outputs: int = 1

    def __str__(self) -> str:
        parts = [self.op, *(f"{key}={value}" for key, value in self.attributes.items())]
        parts += [] if self.opset == 21 else [f"opset{self.opset}"]
        return " ".join(parts).replace("\n", "")


def save(
    path: Path,
    nodes: list[Any],
    inputs: list[np.ndarray],
    constants: dict[str, np.ndarray],
    outputs: list[str],
    opset: int = 21,
) -> Path:
    graph = helper.make_graph(
        nodes,
        "case",
        [
            helper.make_tensor_value_info(f"x{i}", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for i, x in enumerate(inputs)
        ],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    ir_version = 10 if opset >= 9 else 4
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version), path
    )
    return path


def save_case(case: Case, path: Path) -> Path:
    names = [f"x{i}" for i in range(len(case.inputs))]
    constants = {f"w{i}": value for i, value in enumerate(case.stored) if value is not None}
    names += [f"w{i}" if value is not None else "" for i, value in enumerate(case.stored)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, name="the_node", **case.attributes)
    return save(path, [node], list(case.inputs), constants, outputs, case.opset)


def check_against_onnxruntime(path: Path, inputs: Sequence[np.ndarray]) -> Any:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, {f"x{i}": value for i, value in enumerate(inputs)})
    module = convert(path)
    with torch.inference_mode():
        results = module(*(to_channels_last(value) for value in inputs))
    assert len(results) == len(expected)
    for result, reference in zip(results, expected, strict=True):
        assert result.numpy().dtype == reference.dtype
        np.testing.assert_allclose(result.numpy(), reference, rtol=1e-4, atol=1e-5, strict=True)
    return module


def conv(
    *weight: int, bias: bool = True, data: tuple[int, ...] = IMAGE, op: str = "Conv", **attributes: Any
) -> Case:
    channels = weight[1] * attributes.get("group", 1) if op == "ConvTranspose" else weight[0]
    stored = [floats(*weight), *([floats(channels)] if bias else [])]
    return Case(op, [floats(*data)], stored, attributes)


def resize(
    scales: Sequence[float] = (),
    sizes: Sequence[int] = (),
    data: tuple[int, ...] = (1, 3, 6, 7),
    **attributes: Any,
) -> Case:
    stored: list[np.ndarray | None] = [None, np.asarray(scales, np.float32) if scales else None]
    if sizes:
        stored.append(integers(*sizes))
    return Case("Resize", [floats(*data)], stored, attributes)


CASES = [
    conv(6, 8, 3, 3),
    conv(6, 8, 3, 3, bias=False, pads=[1, 1, 1, 1], strides=[2, 2]),
    conv(6, 8, 3, 3, pads=[0, 1, 2, 1]),
    conv(6, 8, 3, 3, pads=[2, 2, 2, 2], dilations=[2, 2]),
    conv(8, 1, 5, 5, group=8, pads=[2, 2, 2, 2]),
    conv(12, 4, 1, 1, group=2),
    conv(6, 8, 3, 3, auto_pad="SAME_UPPER", strides=[2, 2]),
    conv(6, 8, 2, 4, auto_pad="SAME_LOWER"),
    conv(6, 8, 3, 3, auto_pad="VALID"),
    conv(6, 8, 3, data=(2, 8, 17), pads=[1, 1]),
    conv(6, 8, 3, 3, 3, data=(1, 8, 5, 6, 7), pads=[1, 1, 1, 1, 1, 1]),
    conv(8, 6, 3, 3, op="ConvTranspose", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 1]),
    conv(8, 3, 2, 2, op="ConvTranspose", strides=[2, 2], group=2),
    *(
        Case("MaxPool", attributes={"kernel_shape": [3, 3], **extra})
        for extra in (
            {},
            {"strides": [2, 2], "pads": [1, 1, 1, 1]},
            {"strides": [2, 2], "pads": [0, 0, 1, 1]},
            {"strides": [2, 2], "ceil_mode": 1},
            {"strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
            {"strides": [4, 4], "ceil_mode": 1, "pads": [0, 1, 2, 1]},
            {"strides": [2, 2], "auto_pad": "SAME_UPPER"},
            {"dilations": [2, 2]},
            {"pads": [2, 2, 2, 2]},
        )
    ),
    *(
        Case("AveragePool", attributes={"kernel_shape": [3, 3], "count_include_pad": count, **extra})
        for count in (0, 1)
        for extra in (
            {},
            {"strides": [2, 2], "pads": [1, 1, 1, 1]},
            {"strides": [2, 2], "pads": [0, 0, 1, 1]},
            {"strides": [2, 2], "ceil_mode": 1},
            {"strides": [2, 3], "ceil_mode": 1, "pads": [1, 1, 1, 1]},
            {"strides": [3, 3], "ceil_mode": 1, "pads": [1, 0, 2, 1]},
            {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
        )
    ),
    Case("GlobalAveragePool"),
    Case("GlobalMaxPool"),
    Case(
        "BatchNormalization",
        stored=[floats(8), floats(8), floats(8), np.abs(floats(8))],
        attributes={"epsilon": 1e-3},
    ),
    Case("InstanceNormalization", stored=[floats(8), floats(8)]),
    Case("LayerNormalization", stored=[floats(13), floats(13)]),
    Case("LayerNormalization", stored=[floats(11, 13)], attributes={"axis": 2}),
    Case("LRN", attributes={"size": 5, "alpha": 0.1, "beta": 0.7, "bias": 2.0}),
    Case("Relu"),
    Case("Clip", stored=[np.float32(0), np.float32(6)]),
    Case("Clip", stored=[np.float32(-0.5)]),
    Case("Clip", stored=[None, np.float32(0.5)]),
    Case("Clip"),
    Case("Clip", [floats(*IMAGE), np.asarray(-0.5, np.float32)]),
    Case("Clip", attributes={"min": -0.25, "max": 0.25}, opset=9),
    Case("LeakyRelu"),
    Case("LeakyRelu", attributes={"alpha": 0.3}),
    Case("Elu", attributes={"alpha": 0.5}),
    Case("PRelu", stored=[floats(8, 1, 1)]),
    Case("Sigmoid"),
    Case("HardSigmoid"),
    Case("HardSigmoid", attributes={"alpha": 1 / 6, "beta": 0.5}),
    Case("HardSwish"),
    Case("Mish"),
    Case("Gelu"),
    Case("Gelu", attributes={"approximate": "tanh"}),
    Case("Softplus"),
    Case("Tanh"),
    Case("Exp"),
    Case("Erf"),
    Case("Abs"),
    Case("Neg"),
    Case("Sqrt", [np.abs(floats(3, 4))]),
    Case("Pow", stored=[np.float32(2)]),
    Case("Add", [floats(*IMAGE), floats(*IMAGE)]),
    Case("Add", stored=[floats(8, 1, 1)]),
    Case("Sub", stored=[floats(1)]),
    Case("Mul", [floats(*IMAGE), floats(1, 8, 1, 1)]),
    Case("Div", stored=[np.abs(floats(13)) + 1]),
    Case("Div", [integers(7, -7, 9)], [integers(2, 2, -4)]),
    Case("Sum", [floats(2, 3), floats(3), floats(2, 1)]),
    Case("Max", [floats(2, 3), floats(3)]),
    Case("Min", [floats(2, 3), floats(3)]),
    Case("Cast", attributes={"to": TensorProto.FLOAT}, inputs=[integers(1, 2)]),
    Case("Softmax", [floats(2, 3, 4)]),
    Case("Softmax", [floats(2, 3, 4)], attributes={"axis": 1}),
    Case("Softmax", [floats(2, 3, 4)], attributes={"axis": 1}, opset=11),
    Case("MatMul", [floats(2, 3, 4)], [floats(4, 5)]),
    Case("Gemm", [floats(2, 3)], [floats(3, 4), floats(4)]),
    Case("Gemm", [floats(2, 3)], [floats(4, 3), floats(4)], {"transB": 1}),
    Case("Gemm", [floats(3, 2)], [floats(3, 4), floats(2, 1)], {"transA": 1, "alpha": 0.5, "beta": 2.0}),
    Case("Gemm", [floats(2, 3)], [floats(3, 4), floats(1)]),
    Case("Gemm", [floats(2, 3)], [floats(3, 4)]),
    Case("Concat", [floats(*IMAGE), floats(*IMAGE)], attributes={"axis": 1}),
    Case("Flatten"),
    Case("Flatten", attributes={"axis": 0}),
    Case("Flatten", attributes={"axis": -1}),
    Case("Reshape", stored=[integers(0, 2, -1, 13)]),
    Case("Reshape", [floats(0, 4)], [integers(2, 0)], {"allowzero": 1}),
    Case("Transpose"),
    Case("Transpose", attributes={"perm": [0, 2, 3, 1]}),
    Case("Identity"),
    Case("Dropout"),
    Case("Pad", stored=[integers(0, 0, 1, 2, 0, 0, 3, 0)]),
    Case("Pad", stored=[integers(0, 1, -1, 2, 0, 0, 3, 0), np.float32(1.5)]),
    Case("Pad", stored=[integers(1, 2, 0, 3), np.float32(1.5), integers(-1, 2)]),
    Case("Pad", stored=[integers(0, 0, 1, 2, 0, 0, 3, 0)], attributes={"mode": "reflect"}),
    Case("Pad", stored=[integers(0, 0, 1, 2, 0, 0, 3, 0)], attributes={"mode": "edge"}),
    Case("Pad", attributes={"pads": [0, 0, 1, 1, 0, 0, 1, 1], "value": 2.0}, opset=10),
    resize([1, 1, 2, 2]),
    resize([1, 1, 2, 2], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    resize([1, 1, 1.5, 0.7], coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
    resize([1, 1, 1.5, 1.5], nearest_mode="ceil"),
    resize(sizes=[1, 3, 9, 5], nearest_mode="round_prefer_ceil"),
    resize(sizes=[1, 3, 9, 5], coordinate_transformation_mode="align_corners"),
    resize([1, 1, 2, 2], mode="linear"),
    resize([1, 1, 1.7, 0.8], mode="linear"),
    resize(sizes=[1, 3, 1, 1], mode="linear", coordinate_transformation_mode="pytorch_half_pixel"),
    resize(sizes=[1, 3, 12, 20], mode="linear", coordinate_transformation_mode="align_corners"),
    resize([1, 1, 2, 3], mode="linear", coordinate_transformation_mode="asymmetric"),
    Case("Resize", [floats(1, 2, 3, 4)], [np.asarray([1, 1, 2, 2], np.float32)], opset=10),
    Case("Upsample", [floats(1, 2, 3, 4)], [np.asarray([1, 1, 2, 3], np.float32)], opset=9),
    Case("ReduceMean", stored=[integers(2, 3)]),
    Case("ReduceMean", attributes={"axes": [-1], "keepdims": 0}, opset=13),
    Case("ReduceMean"),
    Case("ReduceMean", attributes={"noop_with_empty_axes": 1}),
    Case("ReduceSum", stored=[integers(1)], attributes={"keepdims": 0}),
    Case("ReduceMax", stored=[integers(1)]),
    Case("Squeeze", [floats(1, 3, 1, 2)], [integers(2)]),
    Case("Squeeze", [floats(1, 3, 1, 2)]),
    Case("Squeeze", [floats(1, 3, 1, 2)], attributes={"axes": [0]}, opset=11),
    Case("Unsqueeze", [floats(3, 2)], [integers(0, -1)]),
    Case("Unsqueeze", [floats(3, 2)], attributes={"axes": [1]}, opset=11),
    Case("Shape"),
    Case("Gather", stored=[np.asarray([[0, -1], [2, 1]], np.int64)], attributes={"axis": 1}),
    Case("Gather", stored=[np.asarray(2, np.int64)], attributes={"axis": -1}),
    Case("Slice", stored=[integers(1, -3), integers(5, 1000), integers(1, -1)]),
    Case("Slice", stored=[integers(0, 9), integers(100, -100), integers(2, 3), integers(2, -2)]),
    Case("Slice", attributes={"starts": [1], "ends": [3], "axes": [1]}, opset=9),
    Case("Split", stored=[integers(3, 5)], attributes={"axis": 1}, outputs=2),
    Case("Split", attributes={"axis": 1, "num_outputs": 3}, outputs=3),
    Case("Split", attributes={"axis": 1, "split": [2, 6]}, opset=11, outputs=2),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operator_agrees_with_onnxruntime(case: Case, tmp_path: Path) -> None:
    check_against_onnxruntime(save_case(case, tmp_path / "model.onnx"), case.inputs)


def test_every_operator_of_the_table_has_a_case() -> None:
    assert {case.op for case in CASES} == set(BUILDERS)


def test_constant_nodes_and_a_computed_shape(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Shape", ["x0"], ["shape"]),
        helper.make_node("Constant", [], ["zero"], value_ints=[0]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Constant", [], ["rest"], value=numpy_helper.from_array(integers(-1), "rest")),
        helper.make_node("Concat", ["batch", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x0", "target"], ["flat"]),
        helper.make_node("Constant", [], ["two"], value_float=2.0),
        helper.make_node("Mul", ["flat", "two"], ["y"]),
    ]
    inputs = [floats(2, 3, 4, 5)]
    check_against_onnxruntime(save(tmp_path / "m.onnx", nodes, inputs, {}, ["y"]), inputs)


def batch_norm_constants() -> dict[str, np.ndarray]:
    return {"s": floats(6), "b": floats(6), "m": floats(6), "v": np.abs(floats(6)) + 0.1}


@pytest.mark.parametrize("bias", [False, True])
def test_batch_norm_is_folded_into_the_convolution_before_it(bias: bool, tmp_path: Path) -> None:
    constants = {"w": floats(6, 8, 3, 3), "c": floats(6), **batch_norm_constants()}
    nodes = [
        helper.make_node("Conv", ["x0", "w", *(["c"] if bias else [])], ["conv"]),
        helper.make_node("BatchNormalization", ["conv", "s", "b", "m", "v"], ["norm"]),
        helper.make_node("Relu", ["norm"], ["y"]),
    ]
    inputs = [floats(*IMAGE)]
    path = save(tmp_path / "m.onnx", nodes, inputs, constants, ["y"])
    module = check_against_onnxruntime(path, inputs)
    assert len(module._steps) == 2
    weights = [buffer for buffer in module.buffers() if buffer.dim() == 4]
    assert len(weights) == 1
    assert weights[0].is_contiguous(memory_format=torch.channels_last)


def test_batch_norm_stays_where_the_convolution_has_another_reader(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x0", "w"], ["conv"]),
        helper.make_node("BatchNormalization", ["conv", "s", "b", "m", "v"], ["norm"]),
        helper.make_node("Add", ["norm", "conv"], ["y"]),
    ]
    inputs = [floats(*IMAGE)]
    constants = {"w": floats(6, 8, 1, 1), **batch_norm_constants()}
    path = save(tmp_path / "m.onnx", nodes, inputs, constants, ["y"])
    assert len(check_against_onnxruntime(path, inputs)._steps) == 3


def test_the_module_can_be_traced(tmp_path: Path) -> None:
    case = conv(6, 8, 3, 3, pads=[1, 1, 1, 1])
    module = convert(save_case(case, tmp_path / "m.onnx"))
    example = to_channels_last(case.inputs[0])
    with torch.inference_mode():
        traced = torch.jit.freeze(torch.jit.trace(module, (example,), check_trace=False))
        torch.testing.assert_close(traced(example), module(example))


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (Case("Selu"), "operator Selu"),
        (
            Case("Pad", stored=[integers(0, 1, 0, 0, 0, 0, 0, 0)], attributes={"mode": "reflect"}),
            "first two axes",
        ),
        (Case("MaxPool", attributes={"kernel_shape": [2, 2]}, outputs=2), "Indices"),
        (resize([1, 1, 2, 2], mode="cubic"), "mode cubic"),
    ],
    ids=str,
)
def test_what_is_not_covered_names_operator_and_node(case: Case, message: str, tmp_path: Path) -> None:
    path = save_case(case, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match=message) as error, torch.inference_mode():
        convert(path)(*(to_channels_last(value) for value in case.inputs))
    assert "the_node" in str(error.value)


def test_a_custom_domain_is_named(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x0"], ["y"], domain="com.example")
    path = save(tmp_path / "m.onnx", [node], [floats(2)], {}, ["y"])
    with pytest.raises(ModelError, match=r"m\.onnx: node 'y': operator com\.example\.Conv"):
        convert(path)


def test_a_file_that_is_not_onnx(tmp_path: Path) -> None:
    path = tmp_path / "broken.onnx"
    path.write_bytes(b"not a model")
    with pytest.raises(ModelError, match=r"broken\.onnx: not a readable ONNX model"):
        convert(path)
