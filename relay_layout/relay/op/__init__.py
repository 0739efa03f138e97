"""``relay.op``: every operator, those with a prefix in modules, and registries of callbacks and operators."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from relay_layout.relay.functions.namespaces import get, members
from relay_layout.relay.functions.namespaces import namespace as _namespace

_MODULES = (
    "algorithm",
    "annotation",
    "contrib",
    "image",
    "nn",
    "random",
    "reduce",
    "strategy",
    "tensor",
    "transform",
    "vision",
)

_HOMES = {
    **dict.fromkeys(
        (
            "InferCorrectLayoutOutput",
            "register_alter_op_layout",
            "register_convert_op_layout",
            "register_infer_correct_layout",
        ),
        "callbacks",
    ),
    **dict.fromkeys(("register", "register_compute"), "functions.registration"),
    "register_legalize": "registries.legalization",
    "register_mixed_precision_conversion": "registries.mixed_precision",
}

_find: Callable[[str], Any] = _namespace(__name__, "")[0]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"relay_layout.relay.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name == "op":
        return import_module(__name__)
    return _find(name)


def __dir__() -> list[str]:
    return sorted({*_MODULES, *_HOMES, "get", *members("")})


__all__ = ["get"]
