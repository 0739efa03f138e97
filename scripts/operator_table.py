"""Write the operator table of the documentation: ``python -m scripts.operator_table``."""

import sys
from collections.abc import Mapping
from pathlib import Path

from relay_layout.ops import KEEPS, TABLE
from relay_layout.relay.operators import TABLE as RELAY

PAGE = Path(__file__).resolve().parents[1] / "docs" / "operators.md"

HEADING = """# Operators

Written by `make docs` from the operator tables; a test fails where it is not current.

An operator with a row takes part in layouts: it runs in those of its neighbours, or, as a convolution, in
those that it is offered. One without a row, and a case that its row does not take, keeps its layout, which is
always correct. `relay-layout explain MODEL NODE` tells which it is in a model and why.

ONNX's `If`, `Loop` and `Scan`, and PyTorch's `cond`, `while_loop`, `scan`, `map` and `associative_scan`, are
written out or become bodies, in which operators have layouts as elsewhere:
[branches and loops](kernels.md#branches-and-loops).
"""


def page() -> str:
    """The whole page."""
    rules = {name: str(getattr(rule, "summary", "")) for name, rule in TABLE.items()}
    relax = {name: summary for name, summary in rules.items() if not name.startswith("relay.")}
    carried = {name: summary for name, summary in rules.items() if name.startswith("relay.")}
    relay = [
        [f"`{name}`", "carried as it is" if row.carried else _becomes(row.relax_names)]
        for name, row in sorted(RELAY.items())
        if not row.is_code  # one that a script registered
    ]
    sections = [
        HEADING,
        f"## Relax operators with a row ({len(relax)})\n\n{_by_rule(relax)}",
        f"## Relay operators with a row ({len(carried)})\n\n{_by_rule(carried)}",
        f"## Operators that keep their layout ({len(KEEPS)})\n\n{_by_reason(KEEPS)}",
        f"## Relay operators that are read ({len(relay)})\n\n"
        + _table(["operator", "in the Relax module"], relay),
    ]
    return "\n".join(sections)


def _by_rule(rules: Mapping[str, str]) -> str:
    return _grouped(rules, "how its dimensions correspond")


def _by_reason(reasons: Mapping[str, str]) -> str:
    return _grouped(reasons, "why")


def _grouped(texts: Mapping[str, str], title: str) -> str:
    groups: dict[str, list[str]] = {}
    for name, text in texts.items():
        groups.setdefault(text, []).append(f"`{name}`")
    return _table(["operators", title], [[", ".join(names), text] for text, names in groups.items()])


def _becomes(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "a composition"


def _table(heading: list[str], rows: list[list[str]]) -> str:
    lines = [heading, ["---"] * len(heading), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |\n" for line in lines)


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
