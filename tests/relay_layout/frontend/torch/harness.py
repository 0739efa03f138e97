"""PyTorch programs in tests: compiled here, and their outputs beside PyTorch's own."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import relay_layout

Functions = Mapping[str, Callable[..., Any]]


class Every(torch.nn.Module):
    """All of the functions on the same inputs, so that many operations are compiled in one go."""

    def __init__(self, functions: Functions) -> None:
        super().__init__()
        self._functions = list(functions.values())

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(*inputs) for function in self._functions)


def session_of(model: Any, folder: Path, *arguments: Any, **options: Any) -> relay_layout.Session:
    """The program compiled and loaded again; ``desired_layout`` is among the options."""
    layout = options.pop("desired_layout", "auto")
    module = relay_layout.from_torch(model, *arguments, **options)
    relay_layout.compile(module, desired_layout=layout).save(folder / "program.rla")
    return relay_layout.load(folder / "program.rla")


def assert_agrees(
    session: relay_layout.Session, model: torch.nn.Module, inputs: Sequence[torch.Tensor], what: str = ""
) -> None:
    """The session's outputs have the numbers and the memory order of PyTorch's."""
    with torch.no_grad():
        expected = model(*inputs)
    tensors = expected if isinstance(expected, tuple) else (expected,)
    names = [spec.name for spec in session.inputs]
    outputs = list(session.run(dict(zip(names, inputs, strict=True))).values())
    assert len(outputs) == len(tensors)
    for place, (output, tensor) in enumerate(zip(outputs, tensors, strict=True)):
        where = f"{what} output {place}"
        assert output.shape == tuple(tensor.shape), where
        assert str(output.dtype) == str(tensor.dtype).removeprefix("torch."), where
        scale = float(tensor.abs().max()) if tensor.is_floating_point() and tensor.numel() else 1.0
        allowed = 3e-3 if tensor.dtype == torch.float16 else 1e-4
        np.testing.assert_allclose(output, tensor.numpy(), rtol=allowed, atol=allowed * scale, err_msg=where)
        steps = [stride // output.itemsize for stride in output.strides]
        long = [axis for axis, extent in enumerate(tensor.shape) if extent > 1]
        assert [steps[axis] for axis in long] == [tensor.stride()[axis] for axis in long], where
