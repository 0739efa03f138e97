"""Random weights for networks, by the names of their parameters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm

from relay_layout.errors import ModelError
from relay_layout.graph.border import input_names
from relay_layout.ir import dtype_of, shape_of
from relay_layout.relay.build_module import as_module, main_function

Desc = str


class Initializer:
    """Fills an array by how its name ends: weight, bias, gamma, beta, mean or var."""

    def __call__(self, desc: Desc, arr: np.ndarray) -> None:
        """Fill ``arr`` in place. ModelError for a name that tells nothing."""
        fills: dict[str, float] = {"bias": 0.0, "gamma": 1.0, "beta": 0.0, "mean": 0.0, "var": 1.0}
        if desc.endswith("weight"):
            self._init_weight(desc, arr)
            return
        for ending, value in fills.items():
            if desc.endswith(ending):
                arr[...] = value
                return
        raise ModelError(
            f"nothing tells how to fill '{desc}'; names end in weight, {', '.join(fills)}, or it is 'data'"
        )

    def _init_weight(self, name: Desc, arr: np.ndarray) -> None:
        raise NotImplementedError


class Xavier(Initializer):
    """Uniform weights, wide enough to keep the size of what flows through.

    Glorot, Bengio 2010, "Understanding the difficulty of training deep feedforward neural networks".
    ``factor_type`` tells whether inputs (``in``), outputs (``out``) or both (``avg``) count.
    """

    def __init__(self, rnd_type: str = "uniform", factor_type: str = "avg", magnitude: float = 3) -> None:
        if rnd_type != "uniform":
            raise ValueError(f"rnd_type is 'uniform', not '{rnd_type}'")
        if factor_type not in ("avg", "in", "out"):
            raise ValueError(f"factor_type is 'avg', 'in' or 'out', not '{factor_type}'")
        self.factor_type = factor_type
        self.magnitude = float(magnitude)

    def _init_weight(self, name: Desc, arr: np.ndarray) -> None:
        if arr.ndim < 2:
            raise ModelError(f"'{name}' has {arr.ndim} dimensions; weights have at least 2")
        window = float(np.prod(arr.shape[2:]))
        fans = {"in": arr.shape[1] * window, "out": arr.shape[0] * window}
        fans["avg"] = (fans["in"] + fans["out"]) / 2
        # A depthwise convolution's channels see one window each.
        factor = window if "depthwise" in name else fans[self.factor_type]
        scale = np.sqrt(self.magnitude / factor)
        arr[...] = np.random.uniform(-scale, scale, size=arr.shape)


class Constant(Initializer):
    """Equal weights whose sum is 1."""

    def _init_weight(self, name: Desc, arr: np.ndarray) -> None:
        arr[...] = 1.0 / arr.size


def create_workload(
    net: Any, initializer: Callable[[str, np.ndarray], None] | None = None, seed: int = 0
) -> tuple[tvm.IRModule, dict[str, Any]]:
    """The module of a function, and values for each parameter but the one named "data".

    ``initializer`` is called with a name and an array to fill, :class:`Xavier` without one; numpy's global
    generator is seeded with ``seed`` first.
    """
    module = as_module(net)
    fill = initializer or Xavier()
    np.random.seed(seed)
    params = {}
    main = main_function(module)
    for name, parameter in zip(input_names(main), main.params, strict=True):
        if name == "data":
            continue
        array = np.zeros(shape_of(parameter) or (), dtype_of(parameter))
        fill(name, array)
        params[name] = tvm.runtime.tensor(array)
    return module, params
