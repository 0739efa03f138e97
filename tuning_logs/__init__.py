"""Tuning records that ship with the package: one JSON-lines file per target, version in its name."""

from pathlib import Path


def paths() -> tuple[Path, ...]:
    """Every tuning log of the package, sorted by name."""
    return tuple(sorted(Path(__file__).parent.glob("*.jsonl")))


__all__ = ["paths"]
