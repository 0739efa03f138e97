"""ONNX graphs that are written node by node, in the syntax of ``onnx.parser``."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper


@dataclass
class Nodes:
    """The nodes and constants of a graph under construction; every choice comes from one generator."""

    random: np.random.Generator
    nodes: list[str] = field(default_factory=list)
    constants: dict[str, Any] = field(default_factory=dict)
    names: int = 0

    def name(self) -> str:
        """One that no other value has."""
        self.names += 1
        return f"v{self.names}"

    def constant(self, value: Any) -> str:
        """The name of a new constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, expression: str) -> str:
        """The name of what a new node computes."""
        name = self.name()
        self.nodes.append(f"{name} = {expression}")
        return name

    def model(self, signature: str, opset: int) -> onnx.ModelProto:
        """The graph of these inputs and outputs."""
        header = f'<ir_version: 8, opset_import: ["" : {opset}]> graph {signature}'
        model = onnx.parser.parse_model(f"{header} {{ {'  '.join(self.nodes)} }}")
        model.graph.initializer.extend(
            numpy_helper.from_array(value, name) for name, value in self.constants.items()
        )
        return model
