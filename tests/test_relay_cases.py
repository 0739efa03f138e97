"""What a real Relay printed and computed: imported, run and converted here.

`python -m tests.relay_cases` prints the same as a table.
"""

import pytest
import tvm_ffi

from tests.relay_cases import (
    TOLERANCE,
    Case,
    cases,
    convert,
    difference,
    imported,
    json_modules,
    round_trips,
    run,
)

CASES = cases()
JSON = {stem: (module, case) for stem, module, case in json_modules()}
CONVERSIONS = [(case, place) for case in CASES for place in range(len(case.conversions))]
SLOW = [
    pytest.param(case, place, marks=[pytest.mark.slow] if case.name.startswith("models/") and place else [])
    for case, place in CONVERSIONS
]


def name(value: object) -> str:
    return value.name if isinstance(value, Case) else str(value)


@pytest.mark.parametrize("case", CASES, ids=name)
def test_numbers_are_those_of_relay(case: Case) -> None:
    """Compiled without conversion."""
    assert difference(case, run(case, imported(case))) <= TOLERANCE


@pytest.mark.parametrize("case", CASES, ids=name)
def test_the_imported_module_prints_as_relay_text_that_imports_to_the_same(case: Case) -> None:
    assert round_trips(imported(case, bind=False), case.name)


@pytest.mark.parametrize("stem", JSON)
def test_json_gives_the_numbers_of_relay(stem: str) -> None:
    module, case = JSON[stem]
    assert difference(case, run(case, imported(case, module))) <= TOLERANCE


# Relay's JSON spells out the rounding of qnn.requantize that its text leaves at the default.
@pytest.mark.parametrize("stem", [stem for stem in JSON if "requantize" not in stem])
def test_json_is_the_same_module_as_text(stem: str) -> None:
    module, case = JSON[stem]
    assert tvm_ffi.structural_equal(imported(case, module, bind=False), imported(case, bind=False))


@pytest.mark.parametrize(("case", "place"), SLOW, ids=name)
def test_conversion_keeps_the_numbers_with_no_more_transforms_than_relay(case: Case, place: int) -> None:
    desired, theirs = case.conversions[place]
    converted, ours = convert(case, imported(case), desired)
    assert theirs is None or ours <= theirs
    assert difference(case, run(case, converted)) <= TOLERANCE
