"""What a conversion chose, for people."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from relay_layout.cli.output import one_line

_MOST_REASONS = 20


def layout_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Rows of a table: how many convolutions run in which layouts, and why some were not converted."""
    counts = Counter(map(_shortened, report.get("layouts", {}).values()))
    chosen = ", ".join(f"{count} {layout}" for layout, count in counts.most_common())
    rows = [["convolutions", chosen or "none"]]
    reasons = list(report.get("not_converted", {}).items())
    rows += [["not converted", one_line(f"{name}: {reason}")] for name, reason in reasons[:_MOST_REASONS]]
    if len(reasons) > _MOST_REASONS:
        rows.append(["", f"and {len(reasons) - _MOST_REASONS} more; --json names all"])
    return rows


def _shortened(layouts: str) -> str:
    """``NHWC`` for ``NHWC->NHWC``."""
    data, _, result = layouts.partition("->")
    return data if data == result else layouts
