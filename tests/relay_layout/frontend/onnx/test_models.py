"""Whole models: structure, names, shapes, and agreement with the built-in networks' own Relax."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import tvm
import tvm_ffi
from onnx import helper, numpy_helper, parser
from tvm import relax

from relay_layout import models
from relay_layout.frontend import from_onnx

HEADER = '<ir_version: 8, opset_import: ["" : 17]> g '
DIGITS = Path(__file__).resolve().parents[3] / "data" / "digits"
TARGET = tvm.target.Target({"kind": "llvm"})
RANDOM = np.random.default_rng(29)


def _shapes(module: tvm.IRModule) -> list[list[Any]]:
    return [
        [int(extent) if isinstance(extent, tvm.tirx.IntImm) else extent.name for extent in variable.ty.shape]
        for variable in module["main"].params
    ]


def _run(module: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    machine = relax.VirtualMachine(tvm.compile(module, TARGET), tvm.cpu())
    result = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]


def _calls(module: tvm.IRModule) -> Counter[str]:
    counts: Counter[str] = Counter()

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call):
            counts[expression.op.name.removeprefix("relax.")] += 1

    relax.analysis.post_order_visit(module["main"], visit)
    return counts


@pytest.mark.parametrize("shapes", [None, {"input": (40, 1, 8, 8)}])
def test_digits(shapes: dict[str, tuple[int, ...]] | None) -> None:
    module = from_onnx(DIGITS / "digits.onnx", input_shapes=shapes)
    assert _shapes(module) == [[40 if shapes else "N", 1, 8, 8]]
    with np.load(DIGITS / "test_split.npz") as split:
        images, labels = split["images"][:40], split["labels"][:40]
    session = onnxruntime.InferenceSession(DIGITS / "digits.onnx", providers=["CPUExecutionProvider"])
    (expected,) = session.run(["output"], {"input": images})
    (logits,) = _run(module, images)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)
    assert (logits.argmax(axis=1) == labels).mean() > 0.9


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize("name", models.names())
def test_imports_as_the_built_in_network_itself(name: str, batch: int | str) -> None:
    size = {"vgg16": 32, "inception_v3": 75}.get(name, 64)
    network = models.build(name, image_size=size, width=0.125, classes=10, batch=batch)
    main = from_onnx(models.to_onnx(network))["main"]
    assert list(main.attrs["input_names"]) == ["input"]
    assert list(main.attrs["output_names"]) == [value.name for value in network.outputs]
    assert tvm_ffi.structural_equal(main, models.to_relax(network)["main"], map_free_vars=True)


def test_resnet50_at_full_size() -> None:
    module = from_onnx(models.to_onnx(models.build("resnet50")))
    assert _calls(module) == {
        "nn.conv2d": 53,
        "nn.batch_norm": 53,
        "nn.relu": 49,
        "add": 17,
        "nn.max_pool2d": 1,
        "mean": 1,
        "reshape": 1,
        "matmul": 1,
    }
    assert all(isinstance(block, relax.DataflowBlock) for block in module["main"].body.blocks)


def test_names_survive() -> None:
    model = parser.parse_model(
        f"{HEADER} (float[2,3] a, float[2,3] b) => (float[2,3] c, float[2,3] d)"
        "<float[3] w = {1, 2, 3}> { t = Add(a, w)  c = Relu(t)  d = Sub(c, b) }"
    )
    names = {"a": "input.1", "b": "2:0", "t": "layer/sum", "c": "out put", "d": "9"}
    for values in (model.graph.input, model.graph.output):
        for value in values:
            value.name = names[value.name]
    for node in model.graph.node:
        for fields in (node.input, node.output):
            fields[:] = [names.get(name, name) for name in fields]
    onnx.checker.check_model(model)
    module = from_onnx(model)
    main = module["main"]
    assert [variable.name for variable in main.params] == ["input.1", "_2:0"]
    assert list(main.attrs["input_names"]) == ["input.1", "2:0"]
    assert list(main.attrs["output_names"]) == ["out put", "9"]
    assert [binding.var.name for binding in main.body.blocks[0].bindings] == ["layer_sum", "out_put", "_9"]
    again = tvm.script.from_source(module.script(show_meta=True))
    assert tvm_ffi.structural_equal(module, again)
    left, right = (np.full((2, 3), value, "float32") for value in (1, 4))
    results = _run(module, left, right)
    np.testing.assert_array_equal(results[0], [[2, 3, 4]] * 2)
    np.testing.assert_array_equal(results[1], [[-2, -1, 0]] * 2)


def test_initializers_listed_as_inputs_are_no_parameters() -> None:
    text = '<ir_version: 3, opset_import: ["" : 9]> g (float[2,3] a, float[3] w) => (float[2,3] c)'
    module = from_onnx(parser.parse_model(f"{text} <float[3] w = {{1, 2, 3}}> {{ c = Add(a, w) }}"))
    assert [variable.name for variable in module["main"].params] == ["a"]


def test_given_shape_fixes_a_symbol_everywhere() -> None:
    graph = "(float[N,K] a, float[N,3] b, float[M,3] c) => (float[M,3] d) { d = Relu(c) }"
    model = parser.parse_model(HEADER + graph)
    assert _shapes(from_onnx(model)) == [["N", "K"], ["N", 3], ["M", 3]]
    assert _shapes(from_onnx(model, input_shapes={"a": (4, 5)})) == [[4, 5], [4, 3], ["M", 3]]


def test_unnamed_extents_are_symbolic() -> None:
    graph = "(float[?,3] a, float[?,3] b) => (float[?,3] c, float[?,3] d) { c = Relu(a)  d = Relu(b) }"
    module = from_onnx(parser.parse_model(HEADER + graph))
    assert _shapes(module) == [["a_dim_0", 3], ["b_dim_0", 3]]


def test_extents_whose_names_say_nothing_may_differ() -> None:
    graph = "(float[N,3] a, float[N,3] b) => (float[?,3] c, float[?,3] d) { c = Relu(a)  d = Relu(b) }"
    model = parser.parse_model(HEADER + graph)
    for value in model.graph.input:
        value.type.tensor_type.shape.dim[0].dim_param = "None"
    assert _shapes(from_onnx(model)) == [["a_dim_0", 3], ["b_dim_0", 3]]


def test_what_other_readers_take_as_well() -> None:
    """Nodes out of order, a graph without a name, and ONNX's own domain by its long name."""
    model = parser.parse_model(HEADER + "(float[2,3] a) => (float[2,3] c) { b = Relu(a)  c = Neg(b) }")
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in model.graph.node]
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))
    model.graph.name = ""
    model.opset_import[0].domain = model.graph.node[0].domain = "ai.onnx"
    assert _calls(from_onnx(model)) == {"nn.relu": 1, "negative": 1}


@pytest.mark.parametrize("places", [[1, 5], [[0, 1], [2, 1]]])
def test_sparse_tensors(places: list[Any]) -> None:
    """As an initializer and as a constant."""
    graph = "(float[2,3] a) => (float[2,2] b, float[3,2] c) { b = MatMul(a, w) }"
    model = parser.parse_model(HEADER + graph)
    sparse = model.graph.sparse_initializer.add(dims=[3, 2])
    sparse.values.CopyFrom(numpy_helper.from_array(np.array([2, 3], "float32"), "w"))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array(places), "places"))
    model.graph.node.append(helper.make_node("Constant", [], ["c"], sparse_value=sparse))
    given = RANDOM.standard_normal((2, 3)).astype("float32")
    wanted = np.array([[0, 2], [0, 0], [0, 3]], "float32")
    product, constant = _run(from_onnx(model), given)
    np.testing.assert_allclose(product, given @ wanted, rtol=1e-6)
    np.testing.assert_array_equal(constant, wanted)


@pytest.mark.parametrize(
    ("opset", "body", "operators"),
    [
        # As it is in the model's opset.
        (18, "c = Relu(a)", {"nn.relu": 1}),
        # Axes were an attribute.
        (11, "b = Unsqueeze <axes=[0]> (a)  c = Neg(b)", {"expand_dims": 1, "negative": 1}),
        # No converter goes back from 18, but what there is is the same.
        (18, "i = Constant <value_ints=[0]> ()  c = Gather(a, i)", {"take": 1}),
    ],
)
def test_functions_of_another_opset(opset: int, body: str, operators: dict[str, int]) -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[2,3] x) => (float[unknown] y)'
        f' {{ y = own.f(x) }} <domain: "own", opset_import: ["" : {opset}]> f (a) => (c) {{ {body} }}'
    )
    assert _calls(from_onnx(model)) == operators


def test_outputs_need_no_more_than_a_name() -> None:
    model = parser.parse_model(HEADER + "(float[N,3] a) => (float[N,3] c) { b = Relu(a)  c = Neg(b) }")
    model.graph.output.add().name = "b"
    results = _run(from_onnx(model), np.array([[-1, 0, 2]], "float32"))
    np.testing.assert_array_equal(results, [[[0, 0, -2]], [[0, 0, 2]]])


def test_an_output_that_is_listed_twice() -> None:
    model = parser.parse_model(
        HEADER + "(float[N,3] a) => (float[N,3] b, float[N,3] c) { b = Relu(a)  c = Neg(b) }"
    )
    model.graph.output.append(model.graph.output[0])
    module = from_onnx(model)
    assert list(module["main"].attrs["output_names"]) == ["b", "c"]
    results = _run(module, np.array([[-1, 0, 2]], "float32"))
    np.testing.assert_array_equal(results, [[[0, 0, 2]], [[0, 0, -2]]])


def test_outputs_of_constants_that_are_left_out() -> None:
    nodes = "y, , inverse = Unique(a)"
    model = parser.parse_model(
        f"{HEADER} (float[3] x) => (int64[N] y, int64[3] inverse) <int64[3] a = {{7, 5, 7}}> {{ {nodes} }}"
    )
    results = _run(from_onnx(model), np.zeros(3, "float32"))
    np.testing.assert_array_equal(results[0], [5, 7])
    np.testing.assert_array_equal(results[1], [1, 0, 1])


def test_the_models_own_functions_are_expanded() -> None:
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[2,3] x) => (float[2,3] y)'
        ' { y = own.f(x) } <domain: "own", opset_import: ["" : 17]> f (a) => (c) { b = Relu(a)  c = Neg(b) }'
    )
    assert _calls(from_onnx(model)) == {"nn.relu": 1, "negative": 1}


def test_functions_have_defaults() -> None:
    """For calls in the graph and in other functions that leave attributes out."""
    domains = '["" : 17, "own" : 1]'
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17, "own" : 1]> g (float[2,3] x) => (float[8,3] y)'
        " { a = own.g(x)  y = own.g <axis=0, alpha=0.25> (a) }"
        f' <domain: "own", opset_import: {domains}> g <axis: int = 0, alpha: float = 0.5> (x) => (y)'
        " { a = own.f(x)  b = own.f <slope: float = @alpha> (x)  y = Concat <axis: int = @axis> (a, b) }"
        f' <domain: "own", opset_import: {domains}> f <slope: float = 2.0> (x) => (y)'
        " { y = LeakyRelu <alpha: float = @slope> (x) }"
    )
    x = RANDOM.standard_normal((2, 3)).astype("float32")
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(_run(from_onnx(model), x)[0], wanted, rtol=1e-6)


def test_the_given_model_is_left_alone() -> None:
    model = models.to_onnx(models.build("squeezenet1_1", width=0.125, image_size=64))
    before = model.SerializeToString(deterministic=True)
    from_onnx(model, input_shapes={"input": (1, 3, 64, 64)})
    assert model.SerializeToString(deterministic=True) == before


def test_import_is_silent(capfd: pytest.CaptureFixture[str], recwarn: pytest.WarningsRecorder) -> None:
    from_onnx(DIGITS / "digits.onnx")
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list


def test_clip_of_nan_gives_a_bound() -> None:
    text = '<ir_version: 8, opset_import: ["" : 10]> g (float[3] x) => (float[3] y)'
    text += " { y = Clip <min=0.0, max=6.0> (x) }"
    data = np.array([np.nan, np.inf, -np.inf], "float32")
    assert _run(from_onnx(parser.parse_model(text)), data)[0].tolist() == [6.0, 6.0, 0.0]
