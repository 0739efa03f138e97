"""``relay.qnn``: operators on quantized tensors (``relay.qnn.op``) and their passes."""

from importlib import import_module
from typing import Any

_MODULES = ("op", "transform")


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return list(_MODULES)
