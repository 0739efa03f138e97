"""What the torch converter knows of one ONNX node."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor

from relay_layout.errors import ModelError

Operation = Callable[..., Any]
"""Takes a node's input tensors in order; returns a tensor or a tuple of tensors."""

Builder = Callable[["Node"], Operation]


@dataclass(frozen=True)
class Node:
    """What a builder may know of one ONNX node."""

    op_type: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    constants: Mapping[str, np.ndarray[Any, Any]]
    opset: int
    numbers: Mapping[int, list[Any]] = field(init=False)
    """The inputs of at most one dimension that the model has, read once: what is read of an array in a run,
    Inductor takes for unknown."""

    def __post_init__(self) -> None:
        stored = {index: self.constant(index) for index in range(len(self.inputs))}
        numbers = {
            index: array.reshape(-1).tolist()
            for index, array in stored.items()
            if array is not None and array.ndim < 2
        }
        object.__setattr__(self, "numbers", numbers)

    def constant(self, index: int) -> np.ndarray[Any, Any] | None:
        """The value of input ``index`` where it is stored in the model, else None."""
        return self.constants.get(self.inputs[index]) if self.has_input(index) else None

    def has_input(self, index: int) -> bool:
        """Whether input ``index`` is given; ONNX writes an omitted one as an empty name."""
        return index < len(self.inputs) and bool(self.inputs[index])

    def integers(self, index: int, tensors: Sequence[Tensor | None]) -> list[int]:
        """Input ``index`` as integers: from the model if stored there, else from this run's tensors."""
        if index in self.numbers:
            return [int(value) for value in self.numbers[index]]
        tensor = tensors[index]
        assert tensor is not None
        return [int(value) for value in tensor.reshape(-1).tolist()]

    def attribute_or_integers(
        self, attribute: str, index: int, tensors: Sequence[Tensor | None]
    ) -> list[int] | None:
        """A list that older opsets keep in an attribute and newer ones in an input; None if in neither."""
        if attribute in self.attributes:
            return list(self.attributes[attribute])
        return self.integers(index, tensors) if self.has_input(index) else None

    def unsupported(self, what: str) -> ModelError:
        """The error for a node that this table cannot run."""
        return ModelError(
            f"node '{self.name or self.outputs[0]}': {what} is not covered by the torch converter of bench"
        )
