"""Inception v3: Szegedy, Vanhoucke, Ioffe, Shlens, Wojna 2015, "Rethinking the Inception Architecture for
Computer Vision", arXiv:1512.00567, in torchvision's inference form: neither dropout nor auxiliary head."""

from relay_layout.models.builder import NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options
from relay_layout.models.shapes import Pair

EPSILON = 1e-3


def inception_v3(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """Inception v3, [N,3,H,W] to [N,classes]; 23,834,568 parameters at full width and 1000 classes.

    Images of 75x75 and more fit; 299x299 is what it was published for.
    """
    net = _Blocks(builder, options)
    value = net.convolution(data, "Conv2d_1a_3x3", 32, 3, strides=2)
    value = net.convolution(value, "Conv2d_2a_3x3", 32, 3)
    value = net.convolution(value, "Conv2d_2b_3x3", 64, 3, padding=1)
    value = builder.max_pool(value, "maxpool1", 3, strides=2)
    value = net.convolution(value, "Conv2d_3b_1x1", 80, 1)
    value = net.convolution(value, "Conv2d_4a_3x3", 192, 3)
    value = builder.max_pool(value, "maxpool2", 3, strides=2)
    for name, pooled in (("Mixed_5b", 32), ("Mixed_5c", 64), ("Mixed_5d", 64)):
        value = net.of_35(value, name, pooled)
    value = net.down_to_17(value, "Mixed_6a")
    for name, inner in (("Mixed_6b", 128), ("Mixed_6c", 160), ("Mixed_6d", 160), ("Mixed_6e", 192)):
        value = net.of_17(value, name, inner)
    value = net.down_to_8(value, "Mixed_7a")
    for name in ("Mixed_7b", "Mixed_7c"):
        value = net.of_8(value, name)
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    return builder.dense(value, "fc", options.classes)


class _Blocks:
    """The blocks by the size of their images at 299x299: torchvision's InceptionA to InceptionE."""

    def __init__(self, builder: NetworkBuilder, options: Options) -> None:
        self._builder = builder
        self._options = options

    def convolution(
        self,
        data: Value,
        name: str,
        channels: int,
        kernel: int | Pair,
        *,
        strides: int = 1,
        padding: int | Pair = 0,
    ) -> Value:
        """Convolution to ``channels`` at full width, batch normalization and rectifier."""
        value = self._builder.convolution(
            data,
            f"{name}.conv",
            self._options.channels(channels),
            kernel,
            strides=strides,
            padding=padding,
        )
        value = self._builder.batch_normalization(value, f"{name}.bn", epsilon=EPSILON)
        return self._builder.relu(value, f"{name}.relu")

    def of_35(self, data: Value, name: str, pooled: int) -> Value:
        """InceptionA."""
        one = self.convolution(data, f"{name}.branch1x1", 64, 1)
        five = self.convolution(data, f"{name}.branch5x5_1", 48, 1)
        five = self.convolution(five, f"{name}.branch5x5_2", 64, 5, padding=2)
        three = self.convolution(data, f"{name}.branch3x3dbl_1", 64, 1)
        three = self.convolution(three, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
        three = self.convolution(three, f"{name}.branch3x3dbl_3", 96, 3, padding=1)
        pool = self._averaged(data, name, pooled)
        return self._builder.concatenate([one, five, three, pool], f"{name}.concat")

    def down_to_17(self, data: Value, name: str) -> Value:
        """InceptionB."""
        three = self.convolution(data, f"{name}.branch3x3", 384, 3, strides=2)
        double = self.convolution(data, f"{name}.branch3x3dbl_1", 64, 1)
        double = self.convolution(double, f"{name}.branch3x3dbl_2", 96, 3, padding=1)
        double = self.convolution(double, f"{name}.branch3x3dbl_3", 96, 3, strides=2)
        pool = self._builder.max_pool(data, f"{name}.branch_pool", 3, strides=2)
        return self._builder.concatenate([three, double, pool], f"{name}.concat")

    def of_17(self, data: Value, name: str, inner: int) -> Value:
        """InceptionC."""
        one = self.convolution(data, f"{name}.branch1x1", 192, 1)
        seven = self.convolution(data, f"{name}.branch7x7_1", inner, 1)
        seven = self.convolution(seven, f"{name}.branch7x7_2", inner, (1, 7), padding=(0, 3))
        seven = self.convolution(seven, f"{name}.branch7x7_3", 192, (7, 1), padding=(3, 0))
        double = self.convolution(data, f"{name}.branch7x7dbl_1", inner, 1)
        double = self.convolution(double, f"{name}.branch7x7dbl_2", inner, (7, 1), padding=(3, 0))
        double = self.convolution(double, f"{name}.branch7x7dbl_3", inner, (1, 7), padding=(0, 3))
        double = self.convolution(double, f"{name}.branch7x7dbl_4", inner, (7, 1), padding=(3, 0))
        double = self.convolution(double, f"{name}.branch7x7dbl_5", 192, (1, 7), padding=(0, 3))
        pool = self._averaged(data, name, 192)
        return self._builder.concatenate([one, seven, double, pool], f"{name}.concat")

    def down_to_8(self, data: Value, name: str) -> Value:
        """InceptionD."""
        three = self.convolution(data, f"{name}.branch3x3_1", 192, 1)
        three = self.convolution(three, f"{name}.branch3x3_2", 320, 3, strides=2)
        seven = self.convolution(data, f"{name}.branch7x7x3_1", 192, 1)
        seven = self.convolution(seven, f"{name}.branch7x7x3_2", 192, (1, 7), padding=(0, 3))
        seven = self.convolution(seven, f"{name}.branch7x7x3_3", 192, (7, 1), padding=(3, 0))
        seven = self.convolution(seven, f"{name}.branch7x7x3_4", 192, 3, strides=2)
        pool = self._builder.max_pool(data, f"{name}.branch_pool", 3, strides=2)
        return self._builder.concatenate([three, seven, pool], f"{name}.concat")

    def of_8(self, data: Value, name: str) -> Value:
        """InceptionE."""
        one = self.convolution(data, f"{name}.branch1x1", 320, 1)
        three = self._forked(self.convolution(data, f"{name}.branch3x3_1", 384, 1), f"{name}.branch3x3_2")
        double = self.convolution(data, f"{name}.branch3x3dbl_1", 448, 1)
        double = self.convolution(double, f"{name}.branch3x3dbl_2", 384, 3, padding=1)
        double = self._forked(double, f"{name}.branch3x3dbl_3")
        pool = self._averaged(data, name, 192)
        return self._builder.concatenate([one, three, double, pool], f"{name}.concat")

    def _forked(self, data: Value, name: str) -> Value:
        wide = self.convolution(data, f"{name}a", 384, (1, 3), padding=(0, 1))
        high = self.convolution(data, f"{name}b", 384, (3, 1), padding=(1, 0))
        return self._builder.concatenate([wide, high], f"{name}.concat")

    def _averaged(self, data: Value, name: str, channels: int) -> Value:
        value = self._builder.average_pool(data, f"{name}.pool", 3, strides=1, padding=1)
        return self.convolution(value, f"{name}.branch_pool", channels, 1)
