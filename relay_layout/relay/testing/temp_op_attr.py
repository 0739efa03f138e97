"""Callbacks of operators that hold within ``with``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from relay_layout.errors import ModelError
from relay_layout.relay.callbacks import ALTER, CONVERT, INFER
from relay_layout.relay.registries.legalization import LEGALIZATIONS
from relay_layout.relay.registries.mixed_precision import MIXED

_REGISTRIES = {
    "FTVMAlterOpLayout": ALTER,
    "FTVMConvertOpLayout": CONVERT,
    "FInferCorrectLayout": INFER,
    "FTVMMixedPrecisionConversionType": MIXED,
    **LEGALIZATIONS,
}
"""Relay's attributes of operators that were functions of the caller's, by name."""


class TempOpAttr:
    """``with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", callback):`` registers a callback for a while.

    Another callback of the same kind for the operator holds again afterwards. ModelError for an attribute
    that is no callback here; LayoutError and ModelError, as in registering one for good, for what is none.
    """

    def __init__(self, op_name: str, attr_key: str, attr_value: Callable[..., Any]) -> None:
        if attr_key not in _REGISTRIES:
            raise ModelError(f"TempOpAttr: {attr_key!r} is none of {', '.join(_REGISTRIES)}")
        self._arguments = str(op_name), attr_key, attr_value
        self._entered = ExitStack()

    def __enter__(self) -> TempOpAttr:
        name, key, callback = self._arguments
        self._entered.enter_context(_REGISTRIES[key].instead(name, callback))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered.close()
