"""Models of other frameworks."""

from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import models, relay
from relay_layout.errors import ModelError

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

IMAGE = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")


@pytest.fixture(scope="module")
def resnet() -> Any:
    return models.to_onnx(models.build("resnet18", width=0.125, image_size=32, classes=10))


@pytest.fixture(scope="module")
def expected(resnet: Any) -> np.ndarray:
    session = onnxruntime.InferenceSession(resnet.SerializeToString())
    result: np.ndarray = session.run(None, {"input": IMAGE})[0]
    return result


def parameters(module: tvm.IRModule) -> list[str]:
    return [str(parameter.name) for parameter in module["main"].params]


@pytest.mark.parametrize("freeze", [True, False])
def test_onnx_models_compute_what_onnx_runtime_does(resnet, expected, freeze):
    module, params = relay.frontend.from_onnx(resnet, {"input": IMAGE.shape}, freeze_params=freeze)
    executor = relay.create_executor("graph", module, tvm.cpu(0), "llvm", params)
    np.testing.assert_allclose(executor.evaluate()(IMAGE).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_frozen_weights_are_constants(resnet):
    module, params = relay.frontend.from_onnx(resnet)
    assert (parameters(module), params) == (["input"], {})


def test_weights_are_parameters_by_the_names_in_the_file(resnet):
    module, params = relay.frontend.from_onnx(resnet, freeze_params=False)
    stored = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in resnet.graph.initializer}
    assert parameters(module) == ["input", *params]
    assert {"conv1.weight", "bn1.running_mean"} <= params.keys()
    for name, value in params.items():
        if not name.startswith("param_"):
            np.testing.assert_array_equal(value.numpy(), stored[name])


def small_onnx(extent: int | str) -> Any:
    """y = relu(x) + 1 with a weight of two equal initializers."""
    helper = onnx.helper
    tensor = onnx.numpy_helper.from_array
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Add", ["r", "w"], ["y"])],
        "small",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [extent, 2])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [extent, 2])],
        [tensor(np.ones(2, "float32"), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_shapes_that_the_file_leaves_open(tmp_path):
    path = tmp_path / "small.onnx"
    onnx.save(small_onnx("N"), path)
    given, _ = relay.frontend.from_onnx(str(path), {"x": (3, 2)})
    left, _ = relay.frontend.from_onnx(path, {"x": (relay.Any(), 2)})
    types = [relay.astext(module).split("%x: ")[1].split(")")[0] for module in (given, left)]
    assert types == ["Tensor[(3, 2", "Tensor[(?, 2"]


@pytest.mark.parametrize("extent", [3, relay.Any()])
def test_shapes_in_place_of_those_that_the_file_fixes(extent):
    model = small_onnx(1)
    module, _ = relay.frontend.from_onnx(model, {"x": (extent, 2)})
    data = np.array([[1, -1], [-2, 2], [3, 0]], "float32")
    result = relay.create_executor("vm", mod=module).evaluate()(data).numpy()
    np.testing.assert_array_equal(result, np.maximum(data, 0) + 1)
    assert model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 1
    with pytest.raises(ModelError, match="input 'x' has 2 dimensions in the file, not 1"):
        relay.frontend.from_onnx(model, {"x": (3,)})


def test_opsets():
    module, params = relay.frontend.from_onnx(small_onnx(1), opset=13, freeze_params=False)
    assert parameters(module) == ["x", "w"]
    assert params["w"].numpy().tolist() == [1, 1]
    with pytest.raises(ValueError, match="the model is of opset 13; it cannot be read as opset 9"):
        relay.frontend.from_onnx(small_onnx(1), opset=9)


def test_a_missing_onnx_file():
    with pytest.raises(ModelError, match="no such file"):
        relay.frontend.from_onnx("absent.onnx", freeze_params=False)


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def torch_model(torch: Any) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    ).eval()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["module", "traced", "scripted", "exported"])
def test_torch_models_compute_what_torch_does(torch, torch_model, kind):
    data = torch.rand(2, 3, 8, 8)
    given = {
        "module": lambda: torch_model,
        "traced": lambda: torch.jit.trace(torch_model, data),
        "scripted": lambda: torch.jit.script(torch_model),
        "exported": lambda: torch.export.export(torch_model, (data,)),
    }[kind]()
    module, params = relay.frontend.from_pytorch(given, [("input0", data.shape)])
    assert parameters(module) == ["input0", *params]
    assert {"0.weight", "0.bias", "1.weight", "6.bias"} <= params.keys()
    result = relay.create_executor("graph", module, params=params).evaluate()(input0=data.numpy())
    np.testing.assert_allclose(result.numpy(), torch_model(data).detach().numpy(), rtol=1e-4, atol=1e-5)


def test_torch_inputs_with_dtypes(torch):
    class Embedded(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(7, 3)

        def forward(self, index: Any, scale: Any) -> Any:
            return self.table(index) * scale

    model = Embedded().eval()
    infos = [("index", ([4], "long")), ("scale", ((1,), "float"))]
    module, params = relay.frontend.from_pytorch(model, infos, use_parser_friendly_name=True)
    assert list(params) == ["table_weight"]
    index = np.array([1, 0, 6, 2])
    result = relay.create_executor("graph", module, params=params).evaluate()(index, np.array([2.0]))
    np.testing.assert_allclose(result.numpy(), 2 * model.table.weight.detach().numpy()[index], rtol=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("model", "infos", "message"),
    [
        (lambda model: model, [("x", (1, 5, 8, 8))], "torch.export cannot export the module: .*3 channels"),
        (lambda model: model, [("x",)], r"input_infos: \(name, shape\) or .* is needed"),
        (lambda model: model, [("6.bias", (1, 3, 8, 8))], "an input has the name of another, or of a weight"),
        (lambda model: "model.pt", [], "a PyTorch module is needed, not str"),
    ],
)
def test_torch_mistakes(torch_model, model, infos, message):
    with pytest.raises(ModelError, match=message):
        relay.frontend.from_pytorch(model(torch_model), infos)


def test_an_exported_model_with_other_inputs(torch, torch_model):
    program = torch.export.export(torch_model, (torch.rand(1, 3, 8, 8),))
    with pytest.raises(ModelError, match="the model has 1 inputs, but input_infos has 2"):
        relay.frontend.from_pytorch(program, [("a", (1, 3, 8, 8)), ("b", (1,))])


def test_tflite_without_its_package(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "tflite", None)
    with pytest.raises(ModelError, match="reading TensorFlow Lite needs the tflite package"):
        relay.frontend.from_tflite(b"")


def test_tflite_models_compute_what_their_interpreter_does() -> None:
    pytest.importorskip("tflite")
    from tests.relay_layout.frontend.tflite.harness import reference
    from tests.relay_layout.frontend.tflite.test_integers import integer_convolution, pixels
    from tests.relay_layout.frontend.tflite.writer import TfliteFile

    file = TfliteFile()
    x = file.input(pixels().shape, "int8", scales=(0.02,), zero_points=(-3,))
    file.outputs.append(integer_convolution(file, x))
    data = file.finish()
    module, params = relay.frontend.from_tflite(data, {"t0": pixels().shape}, {"t0": "int8"})
    assert (parameters(module), params) == (["t0"], {})
    result = relay.create_executor("graph", module).evaluate()(t0=pixels()).numpy()
    (expected,) = reference(data, [pixels()])
    assert np.abs(result.astype(int) - expected).max() <= 1
    with pytest.raises(ModelError, match="the TFLite model: input 't0' is int8, not float32"):
        relay.frontend.from_tflite(data, dtype_dict={"t0": "float32"})


@pytest.mark.filterwarnings("ignore")
def test_weights_of_the_same_values_keep_their_names(torch):
    class Halves(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.b, self.a = (torch.nn.Parameter(torch.ones(3)) for _ in range(2))

        def forward(self, data: Any) -> Any:
            return data * self.a - self.b

    module, params = relay.frontend.from_pytorch(Halves().eval(), [("x", (2, 3))])
    changed = {**params, "a": np.full(3, 5, "float32")}
    data = np.arange(6, dtype="float32").reshape(2, 3)
    result = relay.create_executor("graph", module, params=changed).evaluate()(data)
    np.testing.assert_array_equal(result.numpy(), data * 5 - 1)
