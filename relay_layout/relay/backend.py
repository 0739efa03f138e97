"""``relay.backend``: how networks are built and run, of which there is one way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from relay_layout.relay import vm
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__)


class Executor:
    """``executor=Executor("graph")`` of ``relay.build``; options such as "link-params" hold as it is.

    ValueError for another one, of which there are none.
    """

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name != "graph":
            raise ValueError(f"executor {name}: only the graph executor is there")
        self.name = name
        self.options = dict(options or {})

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def __contains__(self, name: object) -> bool:
        return name in self.options

    def __str__(self) -> str:
        return self.name


class Runtime(Executor):
    """``runtime=Runtime("cpp")`` of ``relay.build``. ValueError for another one."""

    def __init__(self, name: str, options: Mapping[str, Any] | None = None) -> None:
        if name != "cpp":
            raise ValueError(f"runtime {name}: microTVM is gone; only the runtime cpp is there")
        self.name = name
        self.options = dict(options or {})


__all__ = ["Executor", "Runtime", "vm"]
