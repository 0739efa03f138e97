"""A network as data: immutable nodes in topological order, written once and emitted to any format."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from relay_layout.errors import ModelError
from relay_layout.models.operations import Operation
from relay_layout.models.parameters import Given, Parameter
from relay_layout.models.shapes import Shape


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
