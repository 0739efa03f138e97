"""Networks written down: a builder that works out shapes and draws weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from relay_layout.errors import ModelError
from relay_layout.models import operations as ops
from relay_layout.models.network import Network, Node, Value
from relay_layout.models.parameters import Normal, Parameter, Uniform
from relay_layout.models.shapes import Padding, Pair, Shape, static_extent

SILU_GAIN = 2.5
HARD_SWISH_GAIN = 3.0
GELU_GAIN = 2.35
"""What keeps the variance of weights' results after these functions of normally distributed numbers; less for
SiLU, which hands on a larger share of larger numbers, so that they would grow from layer to layer."""


class NetworkBuilder:
    """Collects nodes, working out shapes and drawing weights as it goes.

    Every method that adds a node takes the values it reads, then the node's name, and returns the value
    made. A name already taken, or shapes that do not fit, raise ModelError naming network and node.

    Weights keep the variance of what flows through: a layer's weights have variance gain / fan-in, with
    gain 2 after a rectifier (He et al. 2015, "Delving Deep into Rectifiers", arXiv:1502.01852), which is
    the default, 1 after a linear layer, and this module's gains after other functions. Batch normalization
    gets statistics as if trained: no parameter is the neutral 0 or 1 that would hide a fault in folding it.
    """

    def __init__(self, name: str, *, seed: int = 0) -> None:
        self._name = name
        self._seed = seed
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._taken: set[str] = set()
        self._drawn = 0

    def input(self, name: str, shape: Shape) -> Value:
        """A network input of this shape."""
        self._take(name)
        value = Value(name, shape)
        self._inputs.append(value)
        return value

    def convolution(
        self,
        data: Value,
        name: str,
        out_channels: int,
        kernel: int | Pair,
        *,
        strides: int | Pair = 1,
        padding: int | Pair | Padding = 0,
        dilation: int | Pair = 1,
        groups: int = 1,
        bias: bool = False,
        gain: float = 2.0,
    ) -> Value:
        """A convolution of [N,C,H,W]; an integer padding goes on all sides, a pair on rows and columns."""
        operation = ops.Convolution(
            out_channels, _pair(kernel), _pair(strides), _padding(padding), _pair(dilation), groups
        )
        shape = (out_channels, self._channels(data, name) // groups, *operation.kernel)
        return self._layer(data, name, operation, shape, (out_channels,) if bias else None, gain)

    def transposed_convolution(
        self,
        data: Value,
        name: str,
        out_channels: int,
        kernel: int | Pair,
        *,
        strides: int | Pair = 1,
        padding: int | Pair | Padding = 0,
        bias: bool = False,
        gain: float = 2.0,
    ) -> Value:
        """A transposed convolution of [N,C,H,W], which enlarges the image by the strides."""
        operation = ops.TransposedConvolution(out_channels, _pair(kernel), _pair(strides), _padding(padding))
        shape = (self._channels(data, name), out_channels, *operation.kernel)
        # Only one position of the kernel in as many as there are strides meets any one result.
        fan_in = shape[0] * float(np.prod(operation.kernel)) / float(np.prod(operation.strides))
        return self._layer(data, name, operation, shape, (out_channels,) if bias else None, gain, fan_in)

    def batch_normalization(
        self, data: Value, name: str, *, scale: float = 1.0, epsilon: float = 1e-5
    ) -> Value:
        """Batch normalization of axis 1; ``scale`` is the mean of gamma (less than 1 damps a branch)."""
        channels = (self._channels(data, name),)
        parameters = (
            Parameter(f"{name}.weight", channels, self._uniform(0.8 * scale, 1.2 * scale)),
            Parameter(f"{name}.bias", channels, self._normal(0.1 * scale)),
            Parameter(f"{name}.running_mean", channels, self._normal(0.1), trainable=False),
            Parameter(f"{name}.running_var", channels, self._uniform(0.5, 2.0), trainable=False),
        )
        return self._add(name, ops.BatchNormalization(epsilon), (data,), parameters)

    def normalized_convolution(
        self,
        data: Value,
        name: str,
        out_channels: int,
        kernel: int,
        *,
        strides: int = 1,
        groups: int = 1,
        gain: float = 2.0,
        epsilon: float = 1e-5,
    ) -> Value:
        """Convolution ``name.0``, padded to shrink by strides only, and batch normalization ``name.1``."""
        value = self.convolution(
            data,
            f"{name}.0",
            out_channels,
            kernel,
            strides=strides,
            padding=kernel // 2,
            groups=groups,
            gain=gain,
        )
        return self.batch_normalization(value, f"{name}.1", epsilon=epsilon)

    def layer_normalization(self, data: Value, name: str, *, epsilon: float = 1e-5) -> Value:
        """Layer normalization of the last axis."""
        extent = (static_extent(data.shape, len(data.shape) - 1),)
        parameters = (
            Parameter(f"{name}.weight", extent, self._uniform(0.8, 1.2)),
            Parameter(f"{name}.bias", extent, self._normal(0.1)),
        )
        return self._add(name, ops.LayerNormalization(epsilon), (data,), parameters)

    def scale(self, data: Value, name: str, mean: float) -> Value:
        """[N,C,H,W] times a parameter ``name``, [C,1,1], with values around ``mean``."""
        shape = (self._channels(data, name), 1, 1)
        parameters = (Parameter(name, shape, self._uniform(0.8 * mean, 1.2 * mean)),)
        return self._add(f"{name}.scaled", ops.Scale(), (data,), parameters)

    def relu(self, data: Value, name: str) -> Value:
        """max(x, 0)."""
        return self._add(name, ops.Relu(), (data,))

    def clip(self, data: Value, name: str, minimum: float, maximum: float) -> Value:
        """min(max(x, minimum), maximum)."""
        return self._add(name, ops.Clip(minimum, maximum), (data,))

    def sigmoid(self, data: Value, name: str) -> Value:
        """1 / (1 + exp(-x))."""
        return self._add(name, ops.Sigmoid(), (data,))

    def hard_sigmoid(self, data: Value, name: str) -> Value:
        """min(max(x / 6 + 1/2, 0), 1)."""
        return self._add(name, ops.HardSigmoid(), (data,))

    def hard_swish(self, data: Value, name: str) -> Value:
        """x times its hard sigmoid."""
        return self._add(name, ops.HardSwish(), (data,))

    def silu(self, data: Value, name: str) -> Value:
        """x times its sigmoid, as two nodes: ONNX has no such operator before opset 24."""
        return self.multiply(data, self.sigmoid(data, f"{name}.sigmoid"), name)

    def gelu(self, data: Value, name: str) -> Value:
        """x times the normal distribution's share below x."""
        return self._add(name, ops.Gelu(), (data,))

    def max_pool(
        self,
        data: Value,
        name: str,
        kernel: int | Pair,
        *,
        strides: int | Pair,
        padding: int | Pair | Padding = 0,
        ceil_mode: bool = False,
    ) -> Value:
        """Maximum pooling of [N,C,H,W]."""
        operation = ops.MaxPool(_pair(kernel), _pair(strides), _padding(padding), ceil_mode)
        return self._add(name, operation, (data,))

    def average_pool(
        self,
        data: Value,
        name: str,
        kernel: int | Pair,
        *,
        strides: int | Pair,
        padding: int | Pair | Padding = 0,
        count_include_pad: bool = True,
    ) -> Value:
        """Average pooling of [N,C,H,W]."""
        operation = ops.AveragePool(_pair(kernel), _pair(strides), _padding(padding), count_include_pad)
        return self._add(name, operation, (data,))

    def global_average_pool(self, data: Value, name: str) -> Value:
        """[N,C,H,W] to [N,C,1,1]."""
        return self._add(name, ops.GlobalAveragePool(), (data,))

    def resize(self, data: Value, name: str, factor: int, method: Literal["nearest", "linear"]) -> Value:
        """[N,C,H,W] enlarged by a whole factor."""
        return self._add(name, ops.Resize(factor, method), (data,))

    def add(self, left: Value, right: Value, name: str) -> Value:
        """The sum of two values of one shape."""
        return self._add(name, ops.Add(), (left, right))

    def multiply(self, data: Value, factor: Value, name: str) -> Value:
        """``data`` times ``factor``, whose extents of 1 are repeated."""
        return self._add(name, ops.Multiply(), (data, factor))

    def concatenate(self, values: Sequence[Value], name: str) -> Value:
        """The values side by side along axis 1."""
        return self._add(name, ops.Concatenate(), tuple(values))

    def slice(self, data: Value, name: str, start: int, end: int) -> Value:
        """The channels from ``start`` up to but without ``end``."""
        return self._add(name, ops.Slice(start, end), (data,))

    def transpose(self, data: Value, name: str, axes: tuple[int, ...]) -> Value:
        """The axes in another order; ``axes[i]`` is the one that becomes axis i."""
        return self._add(name, ops.Transpose(axes), (data,))

    def flatten(self, data: Value, name: str) -> Value:
        """[N,...] to [N,K]."""
        return self._add(name, ops.Flatten(), (data,))

    def dense(self, data: Value, name: str, out_features: int, *, gain: float = 2.0) -> Value:
        """[N,K] to [N,out_features], with a bias."""
        shape = (out_features, self._channels(data, name))
        return self._layer(data, name, ops.Dense(out_features), shape, (out_features,), gain)

    def pixelwise_dense(self, data: Value, name: str, out_features: int, *, gain: float = 2.0) -> Value:
        """[N,H,W,K] to [N,H,W,out_features], with a bias."""
        shape = (out_features, static_extent(data.shape, len(data.shape) - 1))
        return self._layer(data, name, ops.PixelwiseDense(out_features), shape, (out_features,), gain)

    def build(self, outputs: Mapping[str, Value]) -> Network:
        """The network; ``outputs`` maps each output's name to a value that a node makes, else ModelError."""
        made = {node.output.name: node.output for node in self._nodes}
        renamed: dict[str, str] = {}
        for name, value in outputs.items():
            if value.name not in made or value.name in renamed:
                raise ModelError(
                    f"network '{self._name}': output '{name}' is not a value of its own made by a node"
                )
            if name != value.name:
                self._take(name)
            renamed[value.name] = name
        return Network(
            self._name,
            tuple(self._inputs),
            tuple(Value(name, value.shape) for name, value in outputs.items()),
            tuple(
                replace(
                    node,
                    inputs=tuple(renamed.get(name, name) for name in node.inputs),
                    output=Value(renamed.get(node.output.name, node.output.name), node.output.shape),
                )
                for node in self._nodes
            ),
        )

    def _layer(
        self,
        data: Value,
        name: str,
        operation: ops.Operation,
        shape: tuple[int, ...],
        bias: tuple[int] | None,
        gain: float,
        fan_in: float | None = None,
    ) -> Value:
        if fan_in is None:
            fan_in = max(1, int(np.prod(shape[1:])))
        deviation = float(np.sqrt(gain / fan_in))
        parameters = [Parameter(f"{name}.weight", shape, self._normal(deviation))]
        if bias:
            parameters.append(Parameter(f"{name}.bias", bias, self._normal(0.05)))
        return self._add(name, operation, (data,), tuple(parameters))

    def _add(
        self,
        name: str,
        operation: ops.Operation,
        inputs: tuple[Value, ...],
        parameters: tuple[Parameter, ...] = (),
    ) -> Value:
        try:
            shape = operation.output_shape([value.shape for value in inputs])
        except ModelError as error:
            raise ModelError(f"network '{self._name}', node '{name}': {error}") from None
        self._take(name)
        output = Value(name, shape)
        self._nodes.append(Node(name, operation, tuple(value.name for value in inputs), parameters, output))
        return output

    def _channels(self, data: Value, name: str) -> int:
        if len(data.shape) < 2:
            raise ModelError(f"network '{self._name}', node '{name}': '{data.name}' has no axis 1")
        return static_extent(data.shape, 1)

    def _take(self, name: str) -> None:
        if name in self._taken:
            raise ModelError(f"network '{self._name}': the name '{name}' is taken")
        self._taken.add(name)

    def _normal(self, deviation: float) -> Normal:
        return Normal(0.0, deviation, self._next_seed())

    def _uniform(self, low: float, high: float) -> Uniform:
        return Uniform(low, high, self._next_seed())

    def _next_seed(self) -> tuple[int, int]:
        self._drawn += 1
        return (self._seed, self._drawn)


def _pair(extent: int | Pair) -> Pair:
    return (extent, extent) if isinstance(extent, int) else extent


def _padding(padding: int | Pair | Padding) -> Padding:
    if isinstance(padding, int):
        return (padding, padding, padding, padding)
    return (*padding, *padding) if len(padding) == 2 else padding
