"""The built-in networks: sizes as published, shapes, options, and activations that stay in range."""

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.models import build, names, to_onnx

PUBLISHED_PARAMETERS = {
    "mobilenet_v2": 3_504_872,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "squeezenet1_1": 1_235_496,
    "vgg16": 138_357_544,
}

LAST_IMAGES = {
    "mobilenet_v2": (1, 1280, 7, 7),
    "resnet18": (1, 512, 7, 7),
    "resnet50": (1, 2048, 7, 7),
    "squeezenet1_1": (1, 1000, 13, 13),
    "vgg16": (1, 512, 7, 7),
}


def test_names() -> None:
    assert names() == ("mobilenet_v2", "resnet18", "resnet50", "squeezenet1_1", "vgg16")


@pytest.mark.parametrize("name", names())
def test_parameter_count_is_torchvisions(name: str) -> None:
    assert build(name).parameter_count() == PUBLISHED_PARAMETERS[name]


@pytest.mark.parametrize("name", names())
def test_shapes_at_224(name: str) -> None:
    network = build(name)
    assert [(value.name, value.shape) for value in network.inputs] == [("input", (1, 3, 224, 224))]
    assert [(value.name, value.shape) for value in network.outputs] == [("output", (1, 1000))]
    images = [node.output.shape for node in network.nodes if len(node.output.shape) == 4]
    assert [shape for shape in images if shape[2:] != (1, 1)][-1] == LAST_IMAGES[name]


@pytest.mark.parametrize("name", names())
def test_shapes_agree_with_onnx_shape_inference(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    network = build(name, batch="N", image_size=(96, 64), width=0.25, classes=7)
    assert network.outputs[0].shape == ("N", 7)
    inferred = onnx.shape_inference.infer_shapes(to_onnx(network), check_type=True, strict_mode=True)
    shapes = {
        value.name: tuple(extent.dim_param or extent.dim_value for extent in value.type.tensor_type.shape.dim)
        for value in (*inferred.graph.value_info, *inferred.graph.output)
    }
    assert shapes == {node.output.name: node.output.shape for node in network.nodes}


def test_parameter_names_are_torchvisions() -> None:
    samples = {
        "mobilenet_v2": [
            "features.1.conv.0.0.weight",
            "features.2.conv.2.weight",
            "features.18.1.running_var",
        ],
        "resnet18": ["layer2.0.downsample.1.running_mean", "fc.bias"],
        "resnet50": ["layer1.0.conv3.weight", "layer4.2.bn3.bias"],
        "squeezenet1_1": ["features.3.expand3x3.bias", "features.12.squeeze.weight", "classifier.1.weight"],
        "vgg16": ["features.28.bias", "classifier.6.weight"],
    }
    for name, expected in samples.items():
        assert set(expected) <= {parameter.name for parameter in build(name).parameters()}


def test_vgg16_first_dense_layer_takes_the_image_as_it_comes() -> None:
    shapes = {p.name: p.shape for p in build("vgg16", image_size=64).parameters()}
    assert shapes["classifier.0.weight"] == (4096, 512 * 2 * 2)


def test_width_scales_channels_to_multiples_of_eight() -> None:
    shapes = {p.name: p.shape for p in build("resnet18", width=0.2).parameters()}
    assert shapes["conv1.weight"] == (16, 3, 7, 7)
    assert shapes["fc.weight"] == (1000, 104)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "resnet19",
            {},
            "unknown built-in network 'resnet19'; "
            "available: mobilenet_v2, resnet18, resnet50, squeezenet1_1, vgg16",
        ),
        ("resnet18", {"batch": 0}, "network 'resnet18': batch must be at least 1, not 0"),
        ("resnet18", {"batch": "3N"}, "network 'resnet18': '3N' cannot name a symbolic batch"),
        ("resnet18", {"image_size": 0}, "network 'resnet18': image height must be at least 1, not 0"),
        ("resnet18", {"image_size": (64, -1)}, "network 'resnet18': image width must be at least 1, not -1"),
        ("resnet18", {"classes": 0}, "network 'resnet18': classes must be at least 1, not 0"),
        ("resnet18", {"width": 0.0}, "network 'resnet18': width must be above 0, not 0.0"),
        ("resnet18", {"seed": -1}, "network 'resnet18': seed must be at least 0, not -1"),
        (
            "vgg16",
            {"image_size": 16},
            "network 'vgg16', node 'features.30': "
            "a window reaching 2 does not fit an extent of 1 padded by 0 and 0",
        ),
    ],
)
def test_bad_options(name: str, options: dict, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        build(name, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "vgg16" else []) for name in names()]
)
def test_activations_stay_in_range_at_224(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    network = build(name)
    model = to_onnx(network)
    inner = [node.output for node in network.nodes if node.output not in network.outputs]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, value.shape) for value in inner
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).standard_normal((1, 3, 224, 224), dtype=np.float32)
    output, *activations = session.run(None, {"input": image})
    assert 0.5 < np.abs(output).max() < 100
    for value, activation in zip(inner, activations, strict=True):
        assert activation.shape == value.shape
        assert 0.05 < activation.std() < 20, value.name
        assert np.abs(activation).max() < 200, value.name
