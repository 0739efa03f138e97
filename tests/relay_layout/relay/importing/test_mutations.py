"""Damaged modules end in a Relax module or in one line that says what is wrong, in bounded time."""

import resource
import time

import numpy as np
import pytest
from relay_files import DATA, DOCUMENTS, TEXTS, damaged, damaged_document
from tree_damage import damaged_tree

from relay_layout.errors import ModelError
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import Module, read_json, read_params, read_text, write_params

NAMES = [name for name in (*TEXTS, *DOCUMENTS) if (DATA / name).stat().st_size < 16_000]
MOST_SECONDS = 20.0
MOST_MEGABYTES = 2_000


def read(name: str, seed: int) -> Module:
    """A file of tests/data/relay, damaged as text or JSON by some seeds, as a tree by the others."""
    text = (DATA / name).read_text()
    is_text = name.endswith(".relay")
    if seed % 4 == 0:
        return (
            read_text(damaged(text, seed), name) if is_text else read_json(damaged_document(text, seed), name)
        )
    return damaged_tree(read_text(text, name) if is_text else read_json(text, name), seed)


def check(name: str, seed: int) -> None:
    try:
        from_tree(read(name, seed), name=name)
    except ModelError as error:
        message = str(error)
        assert message.startswith(name) and "\n" not in message and len(message) < 500, message


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_modules(count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(count):
        name = NAMES[seed % len(NAMES)]
        start = time.monotonic()
        try:
            check(name, seed)
        except Exception as error:
            pytest.fail(
                f"test_mutations.check({name!r}, {seed}): {type(error).__name__}: {str(error)[:300]!r}"
            )
        seconds = time.monotonic() - start
        assert seconds < MOST_SECONDS, f"test_mutations.check({name!r}, {seed}) took {seconds:.0f} s"
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        assert grown < MOST_MEGABYTES, f"test_mutations.check({name!r}, {seed}) took {grown:.0f} MB"


def test_damaged_params() -> None:
    whole = bytearray(write_params({"a": np.ones((2, 3), "float32"), "b": np.arange(4, dtype="int8")}))
    for place in range(len(whole)):
        for value in (0, 1, 127, 255):
            copy = bytearray(whole)
            copy[place] = value
            try:
                read_params(bytes(copy), "p")
            except ModelError as error:
                assert str(error).startswith("p") and "\n" not in str(error)
