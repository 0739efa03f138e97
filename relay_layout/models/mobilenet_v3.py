"""MobileNetV3: Howard, Sandler, Chu, Chen, Chen, Tan, Wang, Zhu, Pang, Vasudevan, Le, Adam 2019, "Searching
for MobileNetV3", arXiv:1905.02244, the large one in torchvision's form without the classifier's dropout."""

from relay_layout.models.builder import HARD_SWISH_GAIN, NetworkBuilder
from relay_layout.models.network import Value
from relay_layout.models.options import Options
from relay_layout.models.squeeze_excitation import GATED_GAIN, squeeze_excite

BLOCKS = (
    (3, 16, 16, 0, "relu", 1),
    (3, 64, 24, 0, "relu", 2),
    (3, 72, 24, 0, "relu", 1),
    (5, 72, 40, 24, "relu", 2),
    (5, 120, 40, 32, "relu", 1),
    (5, 120, 40, 32, "relu", 1),
    (3, 240, 80, 0, "hard_swish", 2),
    (3, 200, 80, 0, "hard_swish", 1),
    (3, 184, 80, 0, "hard_swish", 1),
    (3, 184, 80, 0, "hard_swish", 1),
    (3, 480, 112, 120, "hard_swish", 1),
    (3, 672, 112, 168, "hard_swish", 1),
    (5, 672, 160, 168, "hard_swish", 2),
    (5, 960, 160, 240, "hard_swish", 1),
    (5, 960, 160, 240, "hard_swish", 1),
)
"""Table 1 of the paper: kernel, expanded, output and squeezed channels (0: no gate), function, strides."""

EPSILON = 1e-3

BRANCH_SCALE = 0.4
"""Mean gamma at the end of a residual branch: the sum over a stage's blocks must not grow."""


def mobilenet_v3_large(builder: NetworkBuilder, data: Value, options: Options) -> Value:
    """MobileNetV3-Large, [N,3,H,W] to [N,classes]; 5,483,032 parameters at full width and 1000 classes."""
    value = _convolution(builder, data, "features.0", options.channels(16), 3, "hard_swish", strides=2)
    for index, (kernel, expanded, channels, squeezed, function, strides) in enumerate(BLOCKS, start=1):
        value = _inverted_residual(
            builder,
            value,
            f"features.{index}.block",
            kernel,
            options.channels(expanded),
            options.channels(channels),
            options.channels(squeezed) if squeezed else 0,
            function,
            strides,
        )
    last = f"features.{len(BLOCKS) + 1}"
    value = _convolution(builder, value, last, options.channels(960), 1, "hard_swish", gain=1.0)
    value = builder.global_average_pool(value, "avgpool")
    value = builder.flatten(value, "flatten")
    value = builder.dense(value, "classifier.0", options.channels(1280), gain=HARD_SWISH_GAIN)
    value = builder.hard_swish(value, "classifier.1")
    return builder.dense(value, "classifier.3", options.classes, gain=HARD_SWISH_GAIN)


def _inverted_residual(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    kernel: int,
    expanded: int,
    channels: int,
    squeezed: int,
    function: str,
    strides: int,
) -> Value:
    in_channels = int(data.shape[1])
    value = data
    gain = HARD_SWISH_GAIN if function == "hard_swish" else 2.0
    step = 0
    if expanded != in_channels:
        # The bottleneck before it is linear: gain 1.
        value = _convolution(builder, value, f"{name}.0", expanded, 1, function, gain=1.0)
        step = 1
    value = _convolution(
        builder,
        value,
        f"{name}.{step}",
        expanded,
        kernel,
        function,
        strides=strides,
        groups=expanded,
        gain=gain if step else 1.0,
    )
    step += 1
    if squeezed:
        value = squeeze_excite(
            builder,
            value,
            f"{name}.{step}",
            squeezed,
            activation=builder.relu,
            gate=builder.hard_sigmoid,
            gain=2.0,
        )
        gain *= GATED_GAIN
        step += 1
    residual = strides == 1 and in_channels == channels
    value = builder.convolution(value, f"{name}.{step}.0", channels, 1, gain=gain)
    scale = BRANCH_SCALE if residual else 1.0
    value = builder.batch_normalization(value, f"{name}.{step}.1", scale=scale, epsilon=EPSILON)
    return builder.add(value, data, f"{name}.add") if residual else value


def _convolution(
    builder: NetworkBuilder,
    data: Value,
    name: str,
    channels: int,
    kernel: int,
    function: str,
    *,
    gain: float = 2.0,
    **options: int,
) -> Value:
    value = builder.normalized_convolution(
        data, name, channels, kernel, gain=gain, epsilon=EPSILON, **options
    )
    activation = builder.hard_swish if function == "hard_swish" else builder.relu
    return activation(value, f"{name}.2")
