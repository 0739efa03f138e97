"""Whether ranges of addresses meet."""

import numpy as np
import pytest

from relay_layout.runtime.places import Places, address, place_of

PLACES = [range(40, 50), range(10, 20), range(15, 25), range(30, 30), range(60, 61)]


@pytest.mark.parametrize("begin", range(64))
@pytest.mark.parametrize("length", [0, 1, 7, 40])
def test_places_that_meet(begin: int, length: int) -> None:
    place = range(begin, begin + length)
    assert Places(PLACES).meet(place) == any(set(place) & set(other) for other in PLACES)


def test_nothing_meets_none() -> None:
    assert not Places().meet(range(5))


def test_the_place_of_a_part() -> None:
    array = np.zeros(9, "float32")
    assert place_of(array[2:5]) == range(address(array) + 8, address(array) + 20)
