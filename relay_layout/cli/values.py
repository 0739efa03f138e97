"""What options hold, read from their text; ArgumentTypeError tells what was expected."""

import json
from argparse import ArgumentTypeError
from collections.abc import Mapping, Sequence
from math import inf

from topi_ext.messages import json_reason

_MOST_THREADS = 65536


def positive(text: str, most: int | None = None) -> int:
    """A whole number of at least 1, for argparse."""
    bound = "at least 1" if most is None else f"1 to {most}"
    number = _whole(text)
    if number is None or number < 1 or (most is not None and number > most):
        raise ArgumentTypeError(f"expected a whole number of {bound}, got '{text}'")
    return number


def seconds(text: str) -> float:
    """A number of seconds above 0 and at most an hour, for argparse."""
    number = _real(text)
    if not 0 < number <= 3600:
        raise ArgumentTypeError(f"expected a number of seconds above 0, at most 3600, got '{text}'")
    return number


def address(text: str) -> tuple[str, int]:
    """Host and port, for argparse."""
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ArgumentTypeError(f"expected HOST:PORT, got '{text}'")
    return host.strip("[]"), int(port)


def threads(text: str) -> int:
    """A number of threads, for argparse."""
    return positive(text, _MOST_THREADS)


def _real(text: str) -> float:
    """The number that a text says, or 0."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _whole(text: str) -> int | None:
    stripped = text.strip()
    # int() would also take signs, underscores and other scripts' digits; and past 18 digits it is slow.
    return int(stripped) if stripped.isascii() and stripped.isdigit() and len(stripped) <= 18 else None


def skip_layers(text: str) -> tuple[int, ...]:
    """Whole numbers with commas between them, for argparse."""
    numbers = [_whole(part) for part in text.split(",")]
    if any(number is None for number in numbers):
        raise ArgumentTypeError(f"expected numbers from 0 on, such as 0,3, got '{text}'")
    return tuple(number for number in numbers if number is not None)


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The name of an input and its shape, for argparse."""
    # From the right, because TensorFlow's names hold a colon: "input:0".
    name, _, extents = text.rpartition(":")
    extents = extents.strip()
    if extents.startswith("[") and extents.endswith("]"):
        extents = extents[1:-1]
    shape = [_whole(part) for part in extents.split(",")]
    if not name or any(extent is None or extent < 1 for extent in shape):
        raise ArgumentTypeError(f"expected NAME:1,3,224,224 with numbers from 1 on, got '{text}'")
    return name, tuple(extent for extent in shape if extent is not None)


def border_layout(text: str) -> tuple[str, str]:
    """The name of an input or an output and its layout, for argparse."""
    name, _, layout = text.rpartition(":")
    if not name or not layout.isalnum():
        raise ArgumentTypeError(f"expected NAME:NHWC, got '{text}'")
    return name, layout


def desired_layouts(text: str) -> Mapping[str, Sequence[str]]:
    """Relay's dictionary of operator to layouts, as JSON, for argparse."""
    expected = """expected JSON such as '{"nn.conv2d": ["NHWC", "default"]}'"""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise ArgumentTypeError(f"{expected}: {json_reason(error)}") from None
    except (ValueError, RecursionError):
        raise ArgumentTypeError(f"{expected}: not readable as JSON") from None
    if not isinstance(found, dict) or not found:
        raise ArgumentTypeError(f"{expected}: it names no operator")
    for operator, layouts in found.items():
        if not isinstance(layouts, list) or not layouts or not all(isinstance(item, str) for item in layouts):
            raise ArgumentTypeError(f"{expected}: '{operator}' has no list of layouts")
    return found


def time_limit(text: str) -> float:
    """A number of seconds above 0, without a bound, for argparse."""
    number = _real(text)
    if not 0 < number < inf:
        raise ArgumentTypeError(f"expected a number of seconds above 0, got '{text}'")
    return number
