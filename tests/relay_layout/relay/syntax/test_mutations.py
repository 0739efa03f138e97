"""Damaged files end in a module or in one line that says what is wrong, never in anything else."""

import pytest
from relay_files import DATA, DOCUMENTS, TEXTS, damaged, damaged_document

from relay_layout.errors import ModelError
from relay_layout.relay.syntax import Module, print_text, read_json, read_text, structurally_equal

# Large files of the same kind as others would take most of the time.
NAMES = [name for name in (*TEXTS, *DOCUMENTS) if (DATA / name).stat().st_size < 16_000]


def read_damaged(name: str, seed: int) -> Module:
    """The module in a damaged copy of a file of tests/data/relay."""
    text = (DATA / name).read_text()
    if name.endswith(".relay"):
        return read_text(damaged(text, seed), name)
    return read_json(damaged_document(text, seed) if seed % 3 else damaged(text, seed), name)


def check(name: str, seed: int) -> None:
    try:
        module = read_damaged(name, seed)
    except ModelError as error:
        message = str(error)
        assert message.startswith(name) and "\n" not in message and len(message) < 400, message
        return
    try:
        printed = print_text(module)
    except ModelError as error:
        assert "\n" not in str(error)
        return
    assert structurally_equal(module, read_text(printed))


@pytest.mark.parametrize("count", [300, pytest.param(5000, marks=pytest.mark.slow)])
def test_damaged_files(count: int) -> None:
    for seed in range(count):
        name = NAMES[seed % len(NAMES)]
        try:
            check(name, seed)
        except Exception as error:
            pytest.fail(
                f"test_mutations.check({name!r}, {seed}): {type(error).__name__}: {str(error)[:200]!r}"
            )
