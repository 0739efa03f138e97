"""A network as data: immutable nodes in topological order, written once and emitted to any format."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from relay_layout.errors import ModelError
from relay_layout.models.operations import (
    Add,
    BatchNormalization,
    Clip,
    Concatenate,
    Convolution,
    Dense,
    Flatten,
    GlobalAveragePool,
    MaxPool,
    Operation,
    Padding,
    Pair,
    Relu,
    Shape,
    static_extent,
)
from relay_layout.models.parameters import Given, Normal, Parameter, Uniform


@dataclass(frozen=True)
class Value:
    """A float32 tensor that flows between nodes."""

    name: str
    shape: Shape


@dataclass(frozen=True)
class Node:
    """One operation at work: names of the values it reads, its parameters, and the value it makes."""

    name: str
    operation: Operation
    inputs: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    output: Value


@dataclass(frozen=True)
class Network:
    """Nodes in topological order between named inputs and outputs.

    Nodes and parameters of the built-in networks carry torchvision's names (``layer1.0.conv1.weight``),
    so :meth:`with_parameters` takes a torchvision state dictionary.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter, in the order of the nodes."""
        for node in self.nodes:
            yield from node.parameters

    def parameter_count(self) -> int:
        """The number of trainable elements, as torchvision publishes it; makes no array."""
        return sum(parameter.size for parameter in self.parameters() if parameter.trainable)

    def with_parameters(self, values: Mapping[str, NDArray[np.floating]]) -> "Network":
        """The same network with given values, one array per parameter name, stored as float32.

        ModelError where a parameter is missing, has another shape, or is not one of this network.
        """
        shapes = {parameter.name: parameter.shape for parameter in self.parameters()}
        for name, shape in shapes.items():
            if name not in values:
                raise ModelError(f"network '{self.name}': no values given for parameter '{name}'")
            if values[name].shape != shape:
                raise ModelError(
                    f"network '{self.name}': parameter '{name}' has shape {shape}, "
                    f"the values given have {values[name].shape}"
                )
        unknown = sorted(set(values) - set(shapes))
        if unknown:
            raise ModelError(f"network '{self.name}' has no parameter '{unknown[0]}'")
        return replace(
            self,
            nodes=tuple(
                replace(
                    node,
                    parameters=tuple(
                        replace(
                            parameter,
                            source=Given(np.ascontiguousarray(values[parameter.name], dtype=np.float32)),
                        )
                        for parameter in node.parameters
                    ),
                )
                for node in self.nodes
            ),
        )


class NetworkBuilder:
    """Collects nodes, working out shapes and drawing weights as it goes.

    Every method that adds a node takes the values it reads, then the node's name, and returns the value
    made. A name already taken, or shapes that do not fit, raise ModelError naming network and node.

    Weights keep the variance of what flows through: a layer's weights have variance gain / fan-in, with
    gain 2 after a rectifier (He et al. 2015, "Delving Deep into Rectifiers", arXiv:1502.01852), which is
    the default, and 1 after a linear layer. Batch normalization gets statistics as if trained: no
    parameter is the neutral 0 or 1 that would hide a fault in folding it.
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
        operation = Convolution(
            out_channels, _pair(kernel), _pair(strides), _padding(padding), _pair(dilation), groups
        )
        rows, columns = operation.kernel
        shape = (out_channels, self._channels(data, name) // groups, rows, columns)
        return self._layer(data, name, operation, shape, bias, gain)

    def batch_normalization(
        self, data: Value, name: str, *, scale: float = 1.0, epsilon: float = 1e-5
    ) -> Value:
        """Batch normalization of axis 1; ``scale`` is the mean of gamma (less than 1 damps a branch)."""
        channels = (self._channels(data, name),)
        parameters = (
            Parameter(f"{name}.weight", channels, self._uniform(0.8 * scale, 1.2 * scale)),
            Parameter(f"{name}.bias", channels, self._normal(0.0, 0.1 * scale)),
            Parameter(f"{name}.running_mean", channels, self._normal(0.0, 0.1), trainable=False),
            Parameter(f"{name}.running_var", channels, self._uniform(0.5, 2.0), trainable=False),
        )
        return self._add(name, BatchNormalization(epsilon), (data,), parameters)

    def relu(self, data: Value, name: str) -> Value:
        """max(x, 0)."""
        return self._add(name, Relu(), (data,))

    def clip(self, data: Value, name: str, minimum: float, maximum: float) -> Value:
        """min(max(x, minimum), maximum)."""
        return self._add(name, Clip(minimum, maximum), (data,))

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
        operation = MaxPool(_pair(kernel), _pair(strides), _padding(padding), ceil_mode)
        return self._add(name, operation, (data,))

    def global_average_pool(self, data: Value, name: str) -> Value:
        """[N,C,H,W] to [N,C,1,1]."""
        return self._add(name, GlobalAveragePool(), (data,))

    def add(self, left: Value, right: Value, name: str) -> Value:
        """The sum of two values of one shape."""
        return self._add(name, Add(), (left, right))

    def concatenate(self, values: Sequence[Value], name: str) -> Value:
        """The values side by side along axis 1."""
        return self._add(name, Concatenate(), tuple(values))

    def flatten(self, data: Value, name: str) -> Value:
        """[N,...] to [N,K]."""
        return self._add(name, Flatten(), (data,))

    def dense(self, data: Value, name: str, out_features: int, *, gain: float = 2.0) -> Value:
        """[N,K] to [N,out_features], with a bias."""
        shape = (out_features, self._channels(data, name))
        return self._layer(data, name, Dense(out_features), shape, True, gain)

    def build(self, outputs: Mapping[str, Value]) -> Network:
        """The network; ``outputs`` maps each output's name to a value made by a node."""
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
        operation: Convolution | Dense,
        shape: tuple[int, ...],
        bias: bool,
        gain: float,
    ) -> Value:
        fan_in = max(1, int(np.prod(shape[1:])))
        deviation = float(np.sqrt(gain / fan_in))
        parameters = [Parameter(f"{name}.weight", shape, self._normal(0.0, deviation))]
        if bias:
            parameters.append(Parameter(f"{name}.bias", shape[:1], self._normal(0.0, 0.05)))
        return self._add(name, operation, (data,), tuple(parameters))

    def _add(
        self,
        name: str,
        operation: Operation,
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

    def _normal(self, mean: float, deviation: float) -> Normal:
        return Normal(mean, deviation, self._next_seed())

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
