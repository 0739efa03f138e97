"""Whether ranges of addresses meet."""

import numpy as np
import pytest
import tvm_ffi

from relay_layout.runtime.places import Places, place_of

PLACES = [range(40, 50), range(10, 20), range(15, 25), range(30, 30), range(60, 61)]


@pytest.mark.parametrize("begin", range(64))
@pytest.mark.parametrize("length", [0, 1, 7, 40])
def test_places_that_meet(begin: int, length: int) -> None:
    place = range(begin, begin + length)
    assert Places(PLACES).meet(place) == any(set(place) & set(other) for other in PLACES)


@pytest.mark.parametrize("begin", range(64))
def test_places_that_are_added(begin: int) -> None:
    places = Places(PLACES)
    for place in (range(0, 7), range(55, 58), range(9, 9), range(61, 63), range(27, 30)):
        places.add(place)
    free = {*range(7, 10), *range(25, 27), *range(30, 40), *range(50, 55), 58, 59, 63}
    assert places.meet(range(begin, begin + 1)) == (begin not in free)


def test_nothing_meets_none() -> None:
    assert not Places().meet(range(5))


def test_the_place_of_a_part() -> None:
    array = np.zeros(9, "float32")
    begin = array.ctypes.data
    assert place_of(tvm_ffi.from_dlpack(array[2:5])) == range(begin + 8, begin + 20)
