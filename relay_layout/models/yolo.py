"""A one-stage detector in the form of YOLOv8: Jocher, Chaurasia, Qiu 2023, "Ultralytics YOLOv8", the nano
one up to the raw maps of its three heads, before boxes are decoded."""

from relay_layout.models.builder import SILU_GAIN, NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options

BOX_CHANNELS = 64
"""Four sides of a box, each as a distribution over 16 distances."""

EPSILON = 1e-3

BRANCH_SCALE = 0.5
"""Mean gamma at the end of a residual branch: the sum over a stage's blocks must not grow."""


def yolo(builder: NetworkBuilder, data: Value, options: Options) -> dict[str, Value]:
    """YOLOv8n, [N,3,H,W] to maps "p3", "p4", "p5", each [N,64+classes,H/s,W/s] with s of 8, 16 and 32.

    3,157,184 parameters at full width and 80 classes. H and W are multiples of 32.
    """
    net = _Blocks(builder, options)
    value = net.convolution(data, "model.0", 16, 3, strides=2)
    value = net.convolution(value, "model.1", 32, 3, strides=2)
    value = net.partial(value, "model.2", 32, 1)
    value = net.convolution(value, "model.3", 64, 3, strides=2)
    eighth = net.partial(value, "model.4", 64, 2)
    value = net.convolution(eighth, "model.5", 128, 3, strides=2)
    sixteenth = net.partial(value, "model.6", 128, 2)
    value = net.convolution(sixteenth, "model.7", 256, 3, strides=2)
    value = net.partial(value, "model.8", 256, 1)
    top = net.pyramid(value, "model.9", 256)

    value = builder.resize(top, "model.10", 2, "nearest")
    value = builder.concatenate([value, sixteenth], "model.11")
    middle = net.partial(value, "model.12", 128, 1, residual=False)
    value = builder.resize(middle, "model.13", 2, "nearest")
    value = builder.concatenate([value, eighth], "model.14")
    small = net.partial(value, "model.15", 64, 1, residual=False)
    value = net.convolution(small, "model.16", 64, 3, strides=2)
    value = builder.concatenate([value, middle], "model.17")
    medium = net.partial(value, "model.18", 128, 1, residual=False)
    value = net.convolution(medium, "model.19", 128, 3, strides=2)
    value = builder.concatenate([value, top], "model.20")
    large = net.partial(value, "model.21", 256, 1, residual=False)

    levels = {"p3": small, "p4": medium, "p5": large}
    box = max(BOX_CHANNELS, int(small.shape[1]) // 4)
    scores = max(int(small.shape[1]), min(options.classes, 100))
    return {
        level: net.head(value, "model.22", index, box, scores)
        for index, (level, value) in enumerate(levels.items())
    }


class _Blocks:
    """The blocks, with channels given at full width but for those of the heads."""

    def __init__(self, builder: NetworkBuilder, options: Options) -> None:
        self._builder = builder
        self._options = options

    def convolution(self, data: Value, name: str, channels: int, kernel: int, *, strides: int = 1) -> Value:
        """Convolution, batch normalization and SiLU."""
        return self._convolution(data, name, self._options.channels(channels), kernel, strides=strides)

    def partial(self, data: Value, name: str, channels: int, depth: int, *, residual: bool = True) -> Value:
        """A cross-stage partial block that keeps the result of every inner block (C2f)."""
        width = self._options.channels(channels)
        half = width // 2
        value = self._convolution(data, f"{name}.cv1", 2 * half, 1)
        parts = [
            self._builder.slice(value, f"{name}.chunk.0", 0, half),
            self._builder.slice(value, f"{name}.chunk.1", half, 2 * half),
        ]
        for index in range(depth):
            inner = f"{name}.m.{index}"
            value = self._convolution(parts[-1], f"{inner}.cv1", half, 3)
            value = self._convolution(value, f"{inner}.cv2", half, 3, scale=BRANCH_SCALE if residual else 1.0)
            parts.append(self._builder.add(parts[-1], value, f"{inner}.add") if residual else value)
        value = self._builder.concatenate(parts, f"{name}.concat")
        return self._convolution(value, f"{name}.cv2", width, 1)

    def pyramid(self, data: Value, name: str, channels: int) -> Value:
        """Spatial pyramid pooling: the image beside its maxima over 5, 9 and 13 pixels (SPPF)."""
        width = self._options.channels(channels)
        parts = [self._convolution(data, f"{name}.cv1", width // 2, 1)]
        for index in range(3):
            parts.append(self._builder.max_pool(parts[-1], f"{name}.m.{index}", 5, strides=1, padding=2))
        value = self._builder.concatenate(parts, f"{name}.concat")
        return self._convolution(value, f"{name}.cv2", width, 1)

    def head(self, data: Value, name: str, level: int, box: int, scores: int) -> Value:
        """The raw map of one level: box distributions, then class scores."""
        branches = []
        for branch, inner, channels in (("cv2", box, BOX_CHANNELS), ("cv3", scores, self._options.classes)):
            prefix = f"{name}.{branch}.{level}"
            value = self._convolution(data, f"{prefix}.0", inner, 3)
            value = self._convolution(value, f"{prefix}.1", inner, 3)
            branches.append(
                self._builder.convolution(value, f"{prefix}.2", channels, 1, bias=True, gain=SILU_GAIN)
            )
        return self._builder.concatenate(branches, f"{name}.concat.{level}")

    def _convolution(
        self,
        data: Value,
        name: str,
        channels: int,
        kernel: int,
        *,
        strides: int = 1,
        scale: float = 1.0,
        gain: float = SILU_GAIN,
    ) -> Value:
        value = self._builder.convolution(
            data,
            f"{name}.conv",
            channels,
            kernel,
            strides=strides,
            padding=kernel // 2,
            gain=gain,
        )
        value = self._builder.batch_normalization(value, f"{name}.bn", scale=scale, epsilon=EPSILON)
        return self._builder.silu(value, f"{name}.act")
