"""Registries of the caller's functions, by operator."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.operators import TABLE, did_you_mean
from relay_layout.relay.registries.asking import ask

Callback = TypeVar("Callback", bound=Callable[..., Any])


class Registry:
    """Callbacks by operator; of several for one operator the one with the highest level holds.

    ``kind`` and ``arguments`` name the callbacks and what they are given, in errors of the class ``failure``.
    """

    def __init__(self, kind: str, arguments: Sequence[str], failure: type[RelayLayoutError]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.failure = failure
        self._held: dict[str, tuple[int, Callable[..., Any]]] = {}

    def register(self, name: str, callback: Callback | None, level: int) -> Any:
        """Take a callback; without one, a decorator that does. ``failure`` for what cannot be one."""
        if name not in TABLE:
            raise self.failure(
                f"{self.kind} callback for '{name}': Relay has no such operator{did_you_mean(name)}"
            )
        if isinstance(level, bool) or not isinstance(level, int):
            raise self.failure(f"{self.kind} callback for {name}: the level is a whole number, not {level!r}")

        def add(function: Callback) -> Callback:
            self._check_arguments(name, function)
            present = self._held.get(name)
            if present is not None and present[0] == level and present[1] is not function:
                raise self.failure(
                    f"{self.kind} callback for {name}: one of level {level} is registered already; "
                    "give another level, or reset() the operator first"
                )
            if present is None or present[0] < level:
                self._held[name] = (level, function)
            return function

        return add if callback is None else add(callback)

    @contextmanager
    def instead(self, name: str, callback: Callable[..., Any]) -> Iterator[None]:
        """Within ``with`` this callback holds for an operator, of whatever level another one is."""
        before = self._held.pop(name, None)
        try:
            self.register(name, callback, 0)
            yield
        finally:
            self._held.pop(name, None)
            if before is not None:
                self._held[name] = before

    def ask(self, name: str, *arguments: Any) -> Any:
        """What the operator's callback returns. ``failure`` with what it raises, but for errors of ours."""
        what = f"the {self.kind} callback for {name}"
        return ask(what, self.failure, self._held[name][1], *arguments)

    def _check_arguments(self, name: str, function: Any) -> None:
        expected = ", ".join(self.arguments)
        if not callable(function):
            raise self.failure(
                f"{self.kind} callback for {name}: a function of ({expected}) is needed, not {function!r}"
            )
        try:
            inspect.signature(function).bind(*self.arguments)
        except TypeError:
            called = getattr(function, "__name__", repr(function))
            taken = inspect.signature(function)
            raise self.failure(
                f"{self.kind} callback for {name}: it is called with ({expected}), but {called} takes {taken}"
            ) from None
        except ValueError:  # a function of C, which does not say
            pass

    def get(self, name: str) -> Callable[..., Any] | None:
        """The callback that holds for an operator."""
        held = self._held.get(name)
        return held[1] if held is not None else None

    def reset(self, name: str) -> None:
        """Forget the callback for an operator."""
        self._held.pop(name, None)

    def __bool__(self) -> bool:
        return bool(self._held)
