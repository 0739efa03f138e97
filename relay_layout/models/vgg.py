"""VGG: Simonyan, Zisserman 2014, "Very Deep Convolutional Networks for Large-Scale Image Recognition",
arXiv:1409.1556, configuration D in torchvision's form without the classifier's dropout."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions between two pools."""


def vgg16(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """VGG-16, [N,3,H,W] to [N,classes]; 138,357,544 parameters at 224x224, full width, 1000 classes.

    torchvision pools the last image to 7x7, which does nothing at 224x224; here the first dense layer
    takes the image as large as it comes.
    """
    value = data
    index = 0
    for channels, depth in STAGES:
        for _ in range(depth):
            width = options.channels(channels)
            value = builder.convolution(value, f"features.{index}", width, 3, padding=1, bias=True)
            value = builder.relu(value, f"features.{index + 1}")
            index += 2
        value = builder.max_pool(value, f"features.{index}", 2, strides=2)
        index += 1
    value = builder.flatten(value, "flatten")
    value = builder.dense(value, "classifier.0", options.channels(4096))
    value = builder.relu(value, "classifier.1")
    value = builder.dense(value, "classifier.3", options.channels(4096))
    value = builder.relu(value, "classifier.4")
    return builder.dense(value, "classifier.6", options.classes)
