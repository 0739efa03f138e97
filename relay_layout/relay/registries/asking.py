"""Functions of the caller's, asked in the middle of a pass."""

from collections.abc import Callable
from typing import Any

from relay_layout.errors import RelayLayoutError


def ask(what: str, failure: type[RelayLayoutError], function: Callable[..., Any], *arguments: Any) -> Any:
    """What ``function`` returns. ``failure``, which names ``what`` was asked, for anything it raises.

    Errors of this package go through as they are. Across TVM's passes the type of any other is lost, and
    so is where it came from.
    """
    try:
        return function(*arguments)
    except RelayLayoutError:
        raise
    except Exception as error:
        told = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise failure(f"{what} raised {told}") from error
