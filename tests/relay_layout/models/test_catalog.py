"""The built-in networks: sizes as published, shapes, options, and activations that stay in range."""

from typing import Any

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.models import build, names, to_onnx

# Of torchvision, Pytorch-UNet (transposed convolutions) and Ultralytics (yolov8n, trainable ones).
PUBLISHED_PARAMETERS = {
    "convnext_tiny": 28_589_128,
    "densenet121": 7_978_856,
    "efficientnet_b0": 5_288_548,
    "inception_v3": 23_834_568,
    "mobilenet_v2": 3_504_872,
    "mobilenet_v3_large": 5_483_032,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
    "squeezenet1_1": 1_235_496,
    "unet": 31_037_698,
    "vgg16": 138_357_544,
    "yolo": 3_157_184,
}

CLASSIFIERS = tuple(sorted(set(names()) - {"unet", "yolo"}))

IMAGE_SIZES = {"inception_v3": 299, "unet": 256, "yolo": 320}
"""Where it is not 224."""

LAST_IMAGES = {
    "convnext_tiny": (1, 768, 7, 7),
    "densenet121": (1, 1024, 7, 7),
    "efficientnet_b0": (1, 1280, 7, 7),
    "inception_v3": (1, 2048, 8, 8),
    "mobilenet_v2": (1, 1280, 7, 7),
    "mobilenet_v3_large": (1, 960, 7, 7),
    "resnet18": (1, 512, 7, 7),
    "resnet50": (1, 2048, 7, 7),
    "squeezenet1_1": (1, 1000, 13, 13),
    "vgg16": (1, 512, 7, 7),
}


def _shapes(values: Any) -> dict[str, tuple[Any, ...]]:
    return {value.name: value.shape for value in values}


def test_names() -> None:
    assert names() == tuple(sorted(PUBLISHED_PARAMETERS))


@pytest.mark.parametrize("name", names())
def test_parameter_count_is_the_published_one(name: str) -> None:
    assert build(name).parameter_count() == PUBLISHED_PARAMETERS[name]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_shapes_of_classifiers(name: str) -> None:
    network = build(name)
    size = IMAGE_SIZES.get(name, 224)
    assert _shapes(network.inputs) == {"input": (1, 3, size, size)}
    assert _shapes(network.outputs) == {"output": (1, 1000)}
    images = [node.output.shape for node in network.nodes if len(node.output.shape) == 4]
    # An image of one pixel has two extents of 1, wherever its channels are.
    assert [shape for shape in images if shape[1:].count(1) < 2][-1] == LAST_IMAGES[name]


def test_shapes_of_unet() -> None:
    network = build("unet")
    assert _shapes(network.inputs) == {"input": (1, 3, 256, 256)}
    assert _shapes(network.outputs) == {"output": (1, 2, 256, 256)}


def test_shapes_of_yolo() -> None:
    network = build("yolo")
    assert _shapes(network.inputs) == {"input": (1, 3, 320, 320)}
    assert _shapes(network.outputs) == {
        "p3": (1, 144, 40, 40),
        "p4": (1, 144, 20, 20),
        "p5": (1, 144, 10, 10),
    }


@pytest.mark.parametrize("name", names())
def test_shapes_agree_with_onnx_shape_inference(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    image_size = (107, 75) if name == "inception_v3" else (96, 64)
    # ONNX's inference gives what a Resize makes of a symbolic batch a new name.
    batch: int | str = 2 if name == "yolo" else "N"
    network = build(name, batch=batch, image_size=image_size, width=0.25, classes=7)
    outputs = {"unet": (batch, 7, 96, 64), "yolo": (batch, 71, 12, 8)}
    assert network.outputs[0].shape == outputs.get(name, (batch, 7))
    inferred = onnx.shape_inference.infer_shapes(to_onnx(network), check_type=True, strict_mode=True)
    shapes = {
        value.name: tuple(extent.dim_param or extent.dim_value for extent in value.type.tensor_type.shape.dim)
        for value in (*inferred.graph.value_info, *inferred.graph.output)
        # What a pixelwise dense layer adds its bias to.
        if not value.name.endswith(".unbiased")
    }
    assert shapes == {node.output.name: node.output.shape for node in network.nodes}


def test_parameter_names_are_the_published_ones() -> None:
    samples = {
        "convnext_tiny": [
            "features.0.1.bias",
            "features.4.1.weight",
            "features.5.8.block.3.weight",
            "features.7.2.layer_scale",
            "classifier.0.weight",
            "classifier.2.bias",
        ],
        "densenet121": [
            "features.conv0.weight",
            "features.denseblock3.denselayer24.norm2.running_var",
            "features.transition2.conv.weight",
            "features.norm5.bias",
            "classifier.weight",
        ],
        "efficientnet_b0": [
            "features.1.0.block.1.fc1.bias",
            "features.4.2.block.3.1.running_mean",
            "features.8.0.weight",
            "classifier.1.bias",
        ],
        "inception_v3": [
            "Conv2d_1a_3x3.conv.weight",
            "Mixed_5d.branch5x5_2.bn.weight",
            "Mixed_6e.branch7x7dbl_5.conv.weight",
            "Mixed_7a.branch7x7x3_4.bn.running_mean",
            "Mixed_7c.branch3x3dbl_3b.conv.weight",
            "fc.bias",
        ],
        "mobilenet_v3_large": [
            "features.1.block.1.0.weight",
            "features.4.block.2.fc2.weight",
            "features.15.block.3.1.running_var",
            "features.16.1.bias",
            "classifier.3.bias",
        ],
        "unet": [
            "inc.double_conv.0.weight",
            "down4.maxpool_conv.1.double_conv.4.running_mean",
            "up1.up.bias",
            "up4.conv.double_conv.3.weight",
            "outc.conv.bias",
        ],
        "yolo": [
            "model.0.conv.weight",
            "model.4.m.1.cv2.bn.running_var",
            "model.9.cv2.conv.weight",
            "model.21.m.0.cv1.bn.bias",
            "model.22.cv2.0.1.conv.weight",
            "model.22.cv3.2.2.bias",
        ],
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
            "available: convnext_tiny, densenet121, efficientnet_b0, inception_v3, mobilenet_v2, "
            "mobilenet_v3_large, resnet18, resnet50, squeezenet1_1, unet, vgg16, yolo",
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
        (
            "inception_v3",
            {"image_size": 74},
            "network 'inception_v3', node 'Mixed_7a.branch3x3_2.conv': "
            "a window reaching 3 does not fit an extent of 2 padded by 0 and 0",
        ),
        (
            "unet",
            {"image_size": 40, "width": 0.125},
            "network 'unet', node 'up1.concat': cannot concatenate [1,64,5,5] and [1,64,4,4] along channels",
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
def test_activations_stay_in_range(name: str) -> None:
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    network = build(name)
    model = to_onnx(network)
    inner = [node.output for node in network.nodes if node.output not in network.outputs]
    model.graph.output.extend(
        onnx.helper.make_tensor_value_info(value.name, onnx.TensorProto.FLOAT, value.shape) for value in inner
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    image = np.random.default_rng(1).standard_normal(network.inputs[0].shape, dtype=np.float32)
    results = session.run(None, {"input": image})
    count = len(network.outputs)
    for value, output in zip(network.outputs, results[:count], strict=True):
        assert 0.5 < np.abs(output).max() < 100, value.name
    for value, activation in zip(inner, results[count:], strict=True):
        assert activation.shape == value.shape
        assert 0.05 < activation.std() < 20, value.name
        assert np.abs(activation).max() < 200, value.name
