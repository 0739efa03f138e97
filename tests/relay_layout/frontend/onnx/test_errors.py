"""Every bad ONNX input gives one line that says what is wrong, where, and what to do."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from relay_layout.frontend import from_onnx
from tests.onnx_refusals import message_of


def _model(nodes: str, inputs: str = "float[N,3,7,5] x", opsets: str = '"" : 17', tensors: str = "") -> Any:
    header = f"<ir_version: 8, opset_import: [{opsets}]> bad ({inputs}) => (float[unknown] y) {tensors}"
    return parser.parse_model(f"{header} {{ {nodes} }}")


def _with_initializer(array: np.ndarray) -> Any:
    model = _model("y = Add(x, w)", "float[N,5] x")
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    return model


def test_missing_file_and_directory(folder: Path) -> None:
    assert message_of("x.onnx") == "model 'x.onnx': no such file"
    assert message_of(folder) == f"model '{folder}' is a directory, not a model file"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "model 'm.onnx' is empty"),
        (
            b"<html>",
            "model 'm.onnx' is not a readable ONNX file (6 bytes): truncated, damaged or of another format",
        ),
        (b"\x08\x08", "model 'm.onnx' is not a readable ONNX file (2 bytes): it holds no graph"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0",
            "model 'm.onnx' is a Git LFS pointer, not the model itself: fetch it with 'git lfs pull'",
        ),
    ],
)
def test_damaged_file(folder: Path, content: bytes, message: str) -> None:
    Path("m.onnx").write_bytes(content)
    assert message_of("m.onnx") == message


def test_truncated_file(folder: Path) -> None:
    whole = (Path(__file__).resolve().parents[3] / "data" / "digits" / "digits.onnx").read_bytes()
    Path("m.onnx").write_bytes(whole[:5000])
    expected = (
        "model 'm.onnx' is not a readable ONNX file (5000 bytes): truncated, damaged or of another format"
    )
    assert message_of("m.onnx") == expected


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(folder: Path) -> None:
    Path("m.onnx").write_bytes(b"x")
    Path("m.onnx").chmod(0)
    assert message_of("m.onnx") == "model 'm.onnx': Permission denied"


def test_without_the_onnx_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert message_of("m.onnx") == "reading ONNX needs the onnx package: pip install 'relay-layout[onnx]'"


def test_unknown_operators_are_listed_together() -> None:
    nodes = "a = Foo(x)  b = Bar(a)  c = my.domain.Relu(b)  d = Foo(c)  e = Foo(d)  f = Foo(e)  y = Foo(f)"
    assert message_of(_model(nodes, opsets='"" : 17, "my.domain" : 1')) == (
        "ONNX model 'bad': these operators are not supported: Foo (node 'a', 'd', 'e' and 2 more); "
        "Bar (node 'b'); my.domain.Relu (node 'c'): "
        "export the model without them, or say what they are with "
        "relay_layout.frontend.onnx.register_converter"
    )


def test_what_is_saved_for_one_kind_of_processor() -> None:
    nodes = "a = Foo(x)  y = com.microsoft.nchwc.ReorderInput(a)"
    assert message_of(_model(nodes, opsets='"" : 17, "com.microsoft.nchwc" : 1')) == (
        "ONNX model 'bad' was saved by ONNX Runtime for one kind of processor "
        "(operators of com.microsoft.nchwc): save it with ORT_ENABLE_EXTENDED at most, "
        "or give the model that it was made of"
    )


def test_what_is_defined_by_others_for_known_shapes_alone() -> None:
    nodes = "y, s = CausalConvWithState(x, w)"
    assert message_of(_model(nodes, "float[N,C,L] x, float[C,1,3] w", '"" : 27')) == (
        "ONNX model 'bad': node 'y' (CausalConvWithState) is defined by other operators for known "
        "shapes alone: export the model with fixed shapes"
    )


def test_unknown_operators_in_subgraphs_and_functions() -> None:
    branches = (
        "y = If <then_branch = t () => (float[2] p) { p = Foo(x) },"
        " else_branch = e () => (float[2] q) { q = Neg(x) }> (c)"
    )
    listed = (
        "ONNX model 'bad': these operators are not supported: Foo (node 'p'): export the model without them"
    )
    assert message_of(_model(branches, "float[2] x, bool c")) == listed
    function = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]> bad (float[2] x) => (float[2] y)'
        ' { y = own.f(x) } <domain: "own", opset_import: ["" : 17]> f (a) => (p) { p = Foo(a) }'
    )
    assert message_of(function) == listed


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            "y = Relu(a)  a = Neg(y)",
            "is not a valid ONNX model: Nodes in a graph must be topologically sorted, "
            "however input 'a' of node: name: OpType: Relu is not output of any previous nodes.",
        ),
        ("y = MaxPool(x)", "is not a valid ONNX model: Required attribute 'kernel_shape' is missing."),
        (
            "y = Relu <alpha=1.0> (x)",
            "is not a valid ONNX model: Unrecognized attribute: alpha for operator Relu",
        ),
    ],
)
def test_invalid_structure(nodes: str, message: str) -> None:
    assert message_of(_model(nodes)) == f"ONNX model 'bad' {message}"


def test_versions_and_outputs() -> None:
    newest = onnx.defs.onnx_opset_version()
    assert message_of(_model("y = Relu(x)", opsets='"" : 999')) == (
        f"ONNX model 'bad' uses opset 999, while the installed onnx package knows those up to {newest}: "
        "upgrade onnx, or export the model with an older opset"
    )
    without = _model("y = Relu(x)")
    without.ClearField("opset_import")
    assert message_of(without) == "ONNX model 'bad' is not a valid ONNX model: No opset import for domain ''"
    empty = helper.make_model(helper.make_graph([], "bad", [], []))
    assert message_of(empty) == "ONNX model 'bad' is not a valid ONNX model: it has no outputs"


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"z": (1,)}, "ONNX model 'bad' has no input 'z'; its inputs are x"),
        (
            {"x": (1, 3)},
            "ONNX model 'bad': input 'x' has 4 dimensions in the file, not 2 as in the given shape 1,3",
        ),
        (
            {"x": (1, 4, 7, 5)},
            "ONNX model 'bad': input 'x': dimension 1 is 3 in the file, not 4 as in the given shape 1,4,7,5",
        ),
        ({"x": (0, 3, 7, 5)}, "ONNX model 'bad': input 'x': the given shape 0,3,7,5 has an extent below 1"),
        ({"x": (1.5, 3)}, "ONNX model 'bad': input 'x': the given shape (1.5, 3) is not a list of integers"),
        ({"x": 3}, "ONNX model 'bad': input 'x': the given shape 3 is not a list of integers"),
    ],
)
def test_wrong_input_shape(shapes: Any, message: str) -> None:
    assert message_of(_model("y = Relu(x)"), input_shapes=shapes) == message


def test_one_symbol_given_twice() -> None:
    model = _model("y = Add(x, z)", "float[N,3] x, float[N,3] z")
    assert message_of(model, input_shapes={"x": (2, 3), "z": (4, 3)}) == (
        "ONNX model 'bad': input 'z': dimension 0 is 'N', which is 2 in the given shape of 'x', not 4"
    )


def test_input_without_shape_or_of_another_kind() -> None:
    model = _model("y = Relu(x)")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    message = "ONNX model 'bad': input 'x' declares no shape: give one (--input-shape x:1,3,224,224)"
    assert message_of(model) == message
    from_onnx(model, input_shapes={"x": (2, 3)})
    expected = (
        "ONNX model 'bad': input 'x' is not a numeric tensor, which is not supported: "
        "give the model tensors of numbers"
    )
    assert message_of(_model("y = Identity(x)", "string[2] x")) == expected
    assert message_of(_model("y = SequenceAt(x, i)", "seq(float[2]) x, int64 i")) == expected


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        (
            "y = Conv(x, z)",
            "float[2,3,8,8] x, float[5,4,3,3] z",
            "(Conv) convolves [2,3,8,8] with a weight of [5,4,3,3] and group=1, whose channels do not fit",
        ),
        (
            "y = ConvTranspose <group=2> (x, z)",
            "float[2,4,8,8] x, float[C,2,3,3] z",
            "(ConvTranspose) has a weight of symbolic shape [C,2,3,3]: "
            "give the model's inputs fixed shapes (--input-shape)",
        ),
        (
            "y = Add(x, z)",
            "float[2,3] x, float[2,4] z",
            "(Add) cannot be imported: In relax.add, the first input shape at dim 1 is 3 "
            "and the second input shape at dim 1 is 4, which are not broadcastable.",
        ),
        (
            "y = MatMul(x, z)",
            "float[2,3] x, float[2,4] z",
            "(MatMul) cannot be imported: Matmul requires the reduction length of the operands to be equal. "
            "However, the LHS x has shape [2, 3], while the RHS z has shape [2, 4]. "
            "The reduction dimensions of 3 and 2 are not equal.",
        ),
        (
            "s = Constant <value_ints=[4, -1]> ()  y = Reshape(x, s)",
            "float[2,3] x",
            "(Reshape) cannot reshape [2,3] to [4,-1]",
        ),
        (
            "y = Reshape(x, s)",
            "float[2,3] x, int64[2] s",
            "(Reshape) needs a constant for its input 1, not a tensor computed at run time: "
            "export the model with a number there, or fixed shapes",
        ),
        (
            "y = MaxPool <kernel_shape=[9, 9]> (x)",
            "float[1,3,7,5] x",
            "(MaxPool) has a window reaching 9, which does not fit an extent of 7 padded by 0 and 0",
        ),
        (
            "y = MaxPool <kernel_shape=[9, 5], strides=[2, 1], ceil_mode=1> (x)",
            "float[1,3,7,5] x",
            "(MaxPool) has a window reaching 9, which does not fit an extent of 7 padded by 0 and 0",
        ),
        (
            "y = MaxPool <kernel_shape=[3, 3], strides=[0, 1]> (x)",
            "float[1,3,7,5] x",
            "(MaxPool) has strides [0, 1] where 2 integers from 1 up are due",
        ),
        (
            "y, i = MaxPool <kernel_shape=[3, 3], storage_order=1> (x)",
            "float[1,3,7,5] x",
            "(MaxPool) counts its output Indices along columns, which is not supported: "
            "export it with storage_order=0",
        ),
        (
            "y, i = MaxPool <kernel_shape=[3, 3]> (x)",
            "int8[1,3,7,5] x",
            "(MaxPool) has its output Indices in use for int8: cast its data to float32 before",
        ),
        (
            'y, i = MaxPool <kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER"> (x)',
            "float[1,3,H,5] x",
            "(MaxPool) counts its output Indices with the padding of auto_pad for the symbolic shape "
            "[1,3,H,5]: export it with pads, or give the model's inputs fixed shapes (--input-shape)",
        ),
        (
            "i = Constant <value=int64[1,1,1,1] {0}> ()  o = Constant <value_ints=[1, 1, 3, 3]> ()"
            "  y = MaxUnpool <kernel_shape=[2, 2], strides=[2, 2]> (x, i, o)",
            "float[1,1,1,1] x",
            "(MaxUnpool) has output_shape [1,1,3,3] where its windows make [1,1,2,2], for which ONNX and "
            "ONNX Runtime count places differently: leave output_shape out, and pad what it gives",
        ),
        (
            'y = RoiAlign <mode="max"> (x, r, b)',
            "float[1,3,7,5] x, float[2,4] r, int64[2] b",
            "(RoiAlign) has mode 'max', which is not supported: export it with 'avg'",
        ),
        (
            "y = Det(x)",
            "float[1,3,7,5] x",
            "(Det) takes the determinant of [1,3,7,5], which is no square matrix",
        ),
        (
            "i = Constant <value=int64[1,2] {0,7}> ()  y = GatherND <batch_dims=1> (x, i)",
            "float[1,3,7,5] x",
            "(GatherND) picks elements of axis 2 of [1,3,7,5] that do not exist",
        ),
        (
            "i = Constant <value=int64[1,1,1,1] {-6}> ()  y = GatherElements <axis=-1> (x, i)",
            "float[1,3,7,5] x",
            "(GatherElements) picks elements of axis 3 of [1,3,7,5] that do not exist",
        ),
        (
            "y = Unique <axis=4> (x)",
            "float[1,3,7,5] x",
            "(Unique) has axis 4 where there are 4 dimensions",
        ),
        (
            "t = Constant <value=bool {1}> ()  y = Dropout(x, , t)",
            "float[2,3,4] x",
            "(Dropout) works in training mode, or may at run time; export the network in inference mode",
        ),
        (
            "y, m, v = BatchNormalization <training_mode=1> (x, s, s, s, s)",
            "float[2,3,4] x, float[3] s",
            "(BatchNormalization) works in training mode, which is not supported: "
            "export the network in inference mode",
        ),
        (
            "s = Constant <value_ints=[1000000, 1000000]> ()  c = ConstantOfShape(s)  y = Add(x, c)",
            "float[1] x",
            "(ConstantOfShape) makes a constant of 1000000000000 elements",
        ),
    ],
)
def test_unsupported_node(nodes: str, inputs: str, message: str, capfd: pytest.CaptureFixture[str]) -> None:
    node = "c" if "ConstantOfShape" in message else "y"
    assert message_of(_model(nodes, inputs)) == f"ONNX model 'bad': node '{node}' {message}"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("node", "inputs", "message"),
    [
        (
            "y = DeformConv (x, w, o)",
            "float[1,4,7,5] x, float[2,4,3,3] w, float[1,18,5,4] o",
            "has offset [1,18,5,4] where [1,18,5,3] is due",
        ),
        (
            "y = DeformConv <offset_group=3> (x, w, o)",
            "float[1,4,7,5] x, float[2,4,3,3] w, float[1,54,5,3] o",
            "convolves [1,4,7,5] with a weight of [2,4,3,3], group=1 and offset_group=3, "
            "whose channels do not fit",
        ),
        (
            "y = DeformConv (x, w, o)",
            "float[1,4,H,5] x, float[2,4,3,3] w, float[1,18,P,3] o",
            "convolves [1,4,H,5] with a weight of [2,4,3,3]; "
            "supported are images whose channels, rows and columns are known: "
            "give the model's inputs fixed shapes (--input-shape)",
        ),
    ],
    ids=["offset", "offset groups", "extents"],
)
def test_deformable_convolutions(node: str, inputs: str, message: str) -> None:
    assert message_of(_model(node, inputs, '"" : 19')) == f"ONNX model 'bad': node 'y' (DeformConv) {message}"


def test_columns_that_are_not_the_windows_of_an_image() -> None:
    nodes = "i = Constant <value_ints=[4, 4]> ()  b = Constant <value_ints=[2, 2]> ()  y = Col2Im(x, i, b)"
    assert message_of(_model(nodes, "float[1,8,5] x", '"" : 18')) == (
        "ONNX model 'bad': node 'y' (Col2Im) has columns [1,8,5] where [N,C*4,9] are due for an image [4,4]"
    )


def test_named_node_is_called_by_its_name() -> None:
    model = _model("y = MaxPool <kernel_shape=[9, 9]> (x)")
    model.graph.node[0].name = "stem/pool"
    assert message_of(model).startswith(
        "ONNX model 'bad': node 'stem/pool' (MaxPool) has a window reaching 9"
    )


def test_damaged_initializer() -> None:
    model = _with_initializer(np.ones(5, "float32"))
    tensor = model.graph.initializer[0]
    tensor.raw_data = tensor.raw_data[:-4]
    assert message_of(model).startswith("ONNX model 'bad': initializer 'w' is damaged: ")
    tensor.data_type = 99
    assert message_of(model) == "ONNX model 'bad': initializer 'w' has the unknown element type 99"
    model = _with_initializer(np.array(["a"] * 5))
    expected = (
        "ONNX model 'bad': initializer 'w' holds strings or complex numbers, which is not supported: "
        "compute what it is for outside of the model"
    )
    assert message_of(model) == expected


def test_names_cannot_break_the_line() -> None:
    model = _model("y = Foo(x)")
    model.graph.node[0].name = "two\nlines"
    assert message_of(model) == (
        "ONNX model 'bad': these operators are not supported: Foo (node 'two?lines'): "
        "export the model without them"
    )
