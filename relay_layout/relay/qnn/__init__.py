"""``relay.qnn``: operators on quantized tensors, also as ``relay.qnn.op``, and their passes."""

from importlib import import_module
from typing import Any

from relay_layout.relay.functions.namespaces import namespace

_MODULES = ("op", "transform")

_find, _members = namespace(__name__, "qnn.")


def __getattr__(name: str) -> Any:
    return import_module(f"{__name__}.{name}") if name in _MODULES else _find(name)


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_members()})
