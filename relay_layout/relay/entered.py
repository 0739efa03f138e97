"""Objects that hold within ``with``."""

import threading
from types import TracebackType
from typing import Any, ClassVar, TypeVar

Own = TypeVar("Own", bound="Entered")


class Entered:
    """A base of classes whose objects hold within ``with``: they nest, and each thread has its own."""

    _local: ClassVar[threading.local]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls._local = threading.local()

    @classmethod
    def _entered(cls: type[Own]) -> list[Own]:
        """Those that hold in this thread, the innermost last."""
        held: list[Own] = cls._local.__dict__.setdefault("entered", [])
        return held

    @classmethod
    def current(cls: type[Own]) -> Own:
        """The innermost that holds here; without one, that of the defaults."""
        held = cls._entered()
        return held[-1] if held else cls()

    def __enter__(self: Own) -> Own:
        self._entered().append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._entered().pop()
