"""Expressions that are cut to fit a message."""

import pytest

from relay_layout.long_expressions import cut

LONG = "min((a // 2 + 16) - (a // 4), 32) * (b - max((32 - a // 2) // 2, (a // 2 - 32) // 2))"


@pytest.mark.parametrize(
    ("text", "longest", "expected"),
    [
        (LONG, len(LONG), LONG),
        (LONG, len(LONG) - 1, "min((a // 2 + 16) - (a // 4), 32) * (b - max((...) // 2, (...) // 2))"),
        (LONG, 40, "min((...) - (...), 32) * (b - max(...))"),
        (LONG, 30, "min(...) * (...)"),
        ("a + b + c + d + (e + f)", 12, "a + b + ..."),
        ("input('a(').shape[0] == (b + c + d)", 34, "input('a(').shape[0] == (...)"),
    ],
)
def test_cut(text: str, longest: int, expected: str) -> None:
    found = cut(text, longest)
    assert found == expected
    assert len(found) <= longest
