"""Relay's JSON form, node by node."""

import json
from typing import Any

import pytest
from relay_files import DATA

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import Call, Function, If, Let, TensorType, Tuple, print_text, read_json

NULL: dict[str, Any] = {"type_key": ""}


def node(key: str, **fields: object) -> dict[str, Any]:
    """A node with fields."""
    return {"type_key": key, "attrs": {name: str(value) for name, value in fields.items()}}


def array(*data: int) -> dict[str, Any]:
    return {"type_key": "Array", "data": list(data)}


def string(text: str) -> dict[str, Any]:
    return {"type_key": "runtime.String", "repr_str": text}


def document(*nodes: dict[str, Any], root: int | None = None) -> str:
    """A document whose root is its last node; node 0 is null."""
    return json.dumps({"root": len(nodes) if root is None else root, "nodes": [NULL, *nodes]})


VARIABLE = (string("x"), node("relay.Id", name_hint=1), node("relay.Var", vid=2, type_annotation=0))
"""Nodes 1 to 3: a variable."""


def test_function_becomes_main() -> None:
    text = document(*VARIABLE, array(3), node("relay.Function", params=4, body=3, ret_type=0, attrs=0))
    function = read_json(text).functions["main"]
    assert function.body is function.params[0]


def test_expression_becomes_main() -> None:
    text = document(
        *VARIABLE,
        {"type_key": "Op", "repr_str": "nn.pad"},
        array(3),
        node("IntImm", dtype="int32", value=-2),
        node("IntImm", dtype="int64", value=5),
        array(6, 7),
        array(8, 8),
        node("relay.attrs.PadAttrs", pad_width=9, pad_mode="edge"),
        node("relay.Call", op=4, args=5, attrs=10),
        array(11, 11),
        node("relay.Tuple", fields=12),
        node("relay.TupleGetItem", tuple_value=13, index=1),
        node("relay.Var", vid=2, type_annotation=0),
        node("relay.Let", var=15, value=14, body=15),
        node("relay.If", cond=3, true_branch=16, false_branch=14),
    )
    function = read_json(text).functions["main"]
    assert [param.name for param in function.params] == ["x"]
    branch = function.body
    assert isinstance(branch, If) and isinstance(branch.true_branch, Let)
    assert branch.true_branch.value is branch.false_branch
    field = branch.false_branch.tuple_value  # type: ignore[union-attr]
    assert isinstance(field, Tuple) and field.fields[0] is field.fields[1]
    call = field.fields[0]
    assert isinstance(call, Call) and call.attrs == {"pad_width": ((-2, 5), (-2, 5)), "pad_mode": "edge"}


@pytest.mark.parametrize(
    ("attributes", "extra", "values"),
    [
        (node("relay.attrs.SoftmaxAttrs", axis=-1), [], {}),
        (node("relay.attrs.SoftmaxAttrs", axis=1), [], {"axis": 1}),
        (node("relay.attrs.LeakyReluAttrs", alpha="0.10000000000000001"), [], {"alpha": 0.1}),
        (node("relay.attrs.ReduceAttrs", axis=0, keepdims=1, exclude=0), [], {"keepdims": True}),
        (node("relay.attrs.CastAttrs", dtype="int8"), [], {"dtype": "int8"}),
        (node("relay.attrs.OneHotAttrs", dtype="", depth=1), [], {}),
        (node("relay.attrs.DenseAttrs", units=0, out_dtype=""), [], {"units": None}),
        # The text of a layout was a field of its own in some versions, and a node in others.
        (node("relay.attrs.PadAttrs", pad_mode="edge"), [], {"pad_mode": "edge"}),
        (node("relay.attrs.PadAttrs", pad_mode=2), [string("edge")], {"pad_mode": "edge"}),
        (node("relay.attrs.PadAttrs", pad_mode=2), [string("constant")], {}),
        (
            node("relay.attrs.PadAttrs", pad_mode=2),
            [{"type_key": "runtime.String", "repr_b64": "AwAAAAAAAABhCmI="}],
            {"pad_mode": "a\nb"},
        ),
        (
            node("relay.attrs.Resize2DAttrs", roi=2),
            [array(3, 3), node("FloatImm", dtype="float32", value=0.5)],
            {"roi": (0.5, 0.5)},
        ),
        (
            node("relay.attrs.ScanopAttrs", exclusive=2),
            [node("IntImm", dtype="bool", value=1)],
            {"exclusive": True},
        ),
        (
            node("DictAttrs", __dict__=2),
            [
                {"type_key": "Map", "keys": ["a", "b"], "data": [3, 0]},
                {"type_key": "Map", "data": [4, 5]},
                string("k"),
                node("runtime.BoxFloat", value=1.5),
            ],
            {"a": {"k": 1.5}, "b": None},
        ),
    ],
)
def test_attributes(attributes: dict[str, Any], extra: list[dict[str, Any]], values: object) -> None:
    nodes = [attributes, *extra, {"type_key": "Op", "repr_str": "op"}, array()]
    count = len(nodes)
    call = read_json(document(*nodes, node("relay.Call", op=count - 1, args=count, attrs=1))).functions[
        "main"
    ]
    assert isinstance(call.body, Call) and call.body.attrs == values


def test_dimensions() -> None:
    nodes = (
        node("tir.Any", dtype="int32"),
        node("tir.Var", dtype="int32"),
        node("IntImm", dtype="int64", value=7),
        array(1, 2, 3),
        node("relay.TensorType", dtype="float32", shape=4),
        string("x"),
        node("relay.Id", name_hint=6),
        node("relay.Var", vid=7, type_annotation=5),
    )
    (param,) = read_json(document(*nodes)).functions["main"].params
    assert param.type == TensorType((None, None, 7), "float32")


CALL = node("relay.Call", op=4, args=5, attrs=0)
OPERATOR = {"type_key": "Op", "repr_str": "op"}

WRONG = {
    "[1]": "expected JSON written by tvm.ir.save_json, found no list of nodes",
    "[" * 100_000: "expected JSON written by tvm.ir.save_json, found lists nested too deep",
    '{"nodes": [], "root": 0}': "expected 'root' to be the index of one of the 0 nodes",
    '{"nodes": [{}], "root": true}': "expected 'root' to be the index of one of the 1 nodes",
    '{"nodes": [1], "root": 0}': "node 0: expected an object",
    '{"nodes": [{}], "root": 0}': "node 0: expected a 'type_key'",
    '{"root": ' + "1" * 5000 + "}": "expected JSON: a number has more than 20 digits",
    document(NULL): "node 1: expected a module or a function",
    document(node("tir.PrimFunc")): "node 1 (tir.PrimFunc): expected a module or a function",
    document(
        *VARIABLE, OPERATOR, array(6), CALL
    ): "node 5 (Array): refers to node 6, which refers back to it",
    document(*VARIABLE, OPERATOR, array(9), CALL): "node 5 (Array): 'data' refers to node 9; the file has 7",
    document(
        *VARIABLE, OPERATOR, array(4), CALL
    ): "node 6 (relay.Call): expected field 'args' to be a list of expressions, found Operator",
    document(
        *VARIABLE, OPERATOR, string("no"), CALL
    ): "node 6 (relay.Call): expected field 'args' to be a list of expressions, found str",
    document(
        *VARIABLE, NULL, array(), CALL
    ): "node 6 (relay.Call): expected field 'op' to be an operator or a function, found null",
    document(
        *VARIABLE, node("relay.Call", op=4, args=0)
    ): "node 4 (relay.Call): refers to node 4, which refers back to it",
    document(*VARIABLE, node("relay.Tuple")): "node 4 (relay.Tuple): expected a field 'fields'",
    document(
        node("relay.Tuple", fields="x")
    ): "node 1 (relay.Tuple): expected field 'fields' to be the index of a node, found 'x'",
    document(
        {"type_key": "relay.Tuple", "attrs": {"fields": 1}}
    ): "node 1 (relay.Tuple): expected 'attrs' to map names to strings",
    document(*VARIABLE, node("relay.TupleGetItem", tuple_value=3, index=-1)): "node 4 (relay.TupleGetItem): "
    "expected the index of a field, found -1",
    document(node("relay.Constant", data=0)): "node 1 (relay.Constant): field 'data' refers to tensor 0; "
    "the file has 0",
    document(
        OPERATOR, array(), node("relay.attrs.FooAttrs"), node("relay.Call", op=1, args=2, attrs=3)
    ): "node 3 (relay.attrs.FooAttrs): attributes of this type are not supported",
    document(
        OPERATOR, array(), node("relay.attrs.SoftmaxAttrs", axes=1), node("relay.Call", op=1, args=2, attrs=3)
    ): "node 3 (relay.attrs.SoftmaxAttrs): unknown attribute 'axes'",
    document(
        OPERATOR,
        array(),
        node("relay.attrs.SoftmaxAttrs", axis="x"),
        node("relay.Call", op=1, args=2, attrs=3),
    ): "node 3 (relay.attrs.SoftmaxAttrs): expected field 'axis' to be a number, found 'x'",
    document(
        OPERATOR, array(), node("relay.attrs.CastAttrs", dtype="x"), node("relay.Call", op=1, args=2, attrs=3)
    ): "node 3 (relay.attrs.CastAttrs): unknown data type 'x' in field 'dtype'; known are bfloat16, bool, "
    "float16, float32, float64, int16, int32, int4, int64, int8, uint16, uint32, uint4, uint64, uint8",
    document(*VARIABLE, array(3, 3), node("relay.Function", params=4, body=3, ret_type=0)): "node 5 "
    "(relay.Function): a variable is there twice in field 'params'",
    document(
        string("f"), node("GlobalVar", name_hint=1)
    ): "node 2 (GlobalVar): function @f is not in the module",
    document(
        string("f"),
        node("GlobalVar", name_hint=1),
        node("tir.PrimFunc"),
        {"type_key": "Map", "data": [2, 3]},
        node("IRModule", functions=4),
    ): "node 5 (IRModule): function @f is a tir.PrimFunc; only relay.Function is supported",
    document(
        {"type_key": "Map", "keys": ["a"], "data": []}
    ): "node 1 (Map): expected as many values as keys: 1, found 0",
    document(
        string("a"), {"type_key": "Map", "data": [1]}
    ): "node 2 (Map): expected keys and values in turn, found a key without a value",
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_wrong(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_json(text, "net.json")
    assert str(caught.value) == f"net.json: {WRONG[text]}"


def test_expressions_that_are_not_supported() -> None:
    with pytest.raises(ModelError, match=r"to be a list of expressions, found a relay\.Match$"):
        read_json(document(node("relay.Match"), array(1), node("relay.Tuple", fields=2)))
    with pytest.raises(
        ModelError, match=r"^<json>: node 6 \(relay\.Function\): type parameters are not supported$"
    ):
        read_json(
            document(
                *VARIABLE,
                array(3),
                array(1),
                node("relay.Function", params=4, body=3, ret_type=0, type_params=5),
            )
        )


def test_no_json() -> None:
    with pytest.raises(ModelError, match=r"^net\.json:2:3: expected JSON: Expecting value$"):
        read_json('{"a":\n  }', "net.json")


def test_lists_that_would_be_large_if_written_out() -> None:
    doubled = [array(index, index) for index in range(1, 40)]
    text = document(node("IntImm", dtype="int32", value=1), *doubled)
    with pytest.raises(ModelError, match=r"^<json>: node 17 \(Array\): has more than 100000 parts$"):
        read_json(text)


def test_lists_nested_deep() -> None:
    text = document(node("IntImm", dtype="int32", value=1), *(array(index) for index in range(1, 5000)))
    with pytest.raises(ModelError, match=r"^<json>: node 66 \(Array\): nests more than 64 deep$"):
        read_json(text)


def test_changed_tensor() -> None:
    text = (DATA / "requantize.json").read_text()
    with pytest.raises(ModelError, match=r"^<json>: tensor 0: expected base64, found other data$"):
        read_json(text.replace('"P6G0', '"?6G0'))
    with pytest.raises(ModelError, match=r"^<json>: tensor 0: byte 0: expected a tensor, found other data$"):
        read_json(text.replace('"P6G0', '"P6G1'))


def test_name_that_text_cannot_hold() -> None:
    text = document(
        string("a b"), *VARIABLE[1:], array(3), node("relay.Function", params=4, body=3, ret_type=0)
    )
    module = read_json(text)
    assert isinstance(module.functions["main"], Function)
    assert "def @main(%a_b)" in print_text(module)
