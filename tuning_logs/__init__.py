"""Tuning records that ship with the package: one JSON-lines file per target, version in its name."""

import json
from functools import cache
from pathlib import Path


def paths() -> tuple[Path, ...]:
    """Every tuning log of the package, sorted by name."""
    return tuple(sorted(Path(__file__).parent.glob("*.jsonl")))


def paths_of(processor: str) -> tuple[Path, ...]:
    """Those of one kind of processor, such as "x86-64 AVX2", by its name in their records."""
    return tuple(path for path in paths() if _processor(path) == processor)


@cache
def _processor(path: Path) -> str:
    with open(path, encoding="utf-8") as lines:
        return str(json.loads(next(lines))["processor"])


__all__ = ["paths", "paths_of"]
