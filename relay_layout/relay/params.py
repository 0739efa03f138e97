"""Files of parameters."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import read_params, write_params


def save_param_dict(params: Mapping[str, Any]) -> bytearray:
    """The bytes of a file with tensors by name, as Relay writes them."""
    return bytearray(write_params({name: as_array(value) for name, value in params.items()}))


def load_param_dict(param_bytes: bytes | bytearray | memoryview) -> dict[str, Any]:
    """Tensors by name from such bytes. ModelError where they are damaged."""
    return {name: tvm.runtime.tensor(array) for name, array in read_params(param_bytes).items()}


def as_array(value: Any) -> np.ndarray:
    """A tensor of TVM, an array, or a number as an array."""
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def as_arrays(params: Mapping[str, Any] | None) -> dict[str, np.ndarray]:
    """Parameters by name as arrays; none for None."""
    if params is not None and not isinstance(params, Mapping):
        raise ModelError(f"params: a dictionary of arrays by name is needed, not {type(params).__name__}")
    return {str(name): as_array(value) for name, value in (params or {}).items()}
