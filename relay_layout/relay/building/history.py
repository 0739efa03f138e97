"""The logs of tuning that ``relay.build`` chooses kernels from."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

_LOGS: ContextVar[tuple[str | os.PathLike[str], ...]] = ContextVar("relay_layout_tuning_logs", default=())


@contextmanager
def apply_history_best(
    records: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None,
) -> Iterator[None]:
    """Within it ``relay.build`` takes the fastest kernels of these logs, beside the package's own.

    Logs are those of :mod:`relay_layout.relay.autotvm` and of ``relay-layout tune``; what AutoTVM wrote says
    nothing of kernels here, and becomes starting points by ``relay-layout import-log``. The innermost holds.
    InputError by ``relay.build`` for what is no log.
    """
    logs = () if records is None else (records,) if isinstance(records, str | os.PathLike) else tuple(records)
    token = _LOGS.set(logs)
    try:
        yield
    finally:
        _LOGS.reset(token)


def logs_applied() -> tuple[str | os.PathLike[str], ...]:
    """The logs of the innermost :func:`apply_history_best`; none outside of one."""
    return _LOGS.get()
