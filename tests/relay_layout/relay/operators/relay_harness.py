"""Relay expressions run as Relax: text in, arrays out."""

from collections.abc import Mapping, Sequence

import numpy as np
import tvm
import tvm_ffi
from tvm import relax

from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import decompose
from relay_layout.relay.syntax import print_text, read_text
from relay_layout.verify import verify_module
from tests.legalizing import legalized


def relay_type(array: np.ndarray) -> str:
    """A parameter's type as text."""
    extents = ", ".join(str(extent) for extent in array.shape)
    return f"Tensor[({extents}{',' if array.ndim == 1 else ''}), {array.dtype}]"


def program(body: str, **inputs: np.ndarray) -> str:
    """The text of a module whose main has the inputs as parameters and a body of several lines or one."""
    parameters = ", ".join(f"%{name}: {relay_type(array)}" for name, array in inputs.items())
    return f"def @main({parameters}) {{\n{body}\n}}"


def imported(text: str) -> tvm.IRModule:
    """The Relax module of a text, consistent and the same after printing it as Relay."""
    module = from_tree(read_text(text, "test"), name="test")
    verify_module(module)
    printed = print_text(to_tree(module))
    again = from_tree(read_text(printed, "printed"), name="printed")
    assert tvm_ffi.structural_equal(module, again), f"not the same after printing as Relay:\n{printed}"
    return module


def execute(module: tvm.IRModule, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a Relax module computes, lowered as it is."""
    module = legalized(decompose(module))
    executable = tvm.compile(module, target=tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    machine = relax.VirtualMachine(executable, tvm.cpu())
    results = machine["main"](*(tvm.runtime.tensor(array) for array in arrays))
    return [leaf.numpy() for leaf in _leaves(results)]


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    """AssertionError where results differ by more than 1e-5 of the largest."""
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def evaluate(body: str, **inputs: np.ndarray) -> list[np.ndarray]:
    """Every result of a body, by position; round trip included. Put many calls into one tuple: compiling
    takes longer than running."""
    return execute(imported(program(body, **inputs)), list(inputs.values()))


def _leaves(results: object) -> list[tvm.runtime.Tensor]:
    if isinstance(results, tvm.runtime.Tensor):
        return [results]
    return [leaf for entry in results for leaf in _leaves(entry)]  # type: ignore[attr-defined]


def check(cases: Mapping[str, np.ndarray], *, rtol: float = 0, **inputs: np.ndarray) -> None:
    """Every call gives its array, of its shape and data type; numbers may differ by ``rtol`` of each."""
    for (call, want), result in zip(cases.items(), evaluate(f"({', '.join(cases)},)", **inputs), strict=True):
        assert (result.dtype, result.shape) == (want.dtype, want.shape), call
        np.testing.assert_allclose(result, want, rtol=rtol, err_msg=call)
