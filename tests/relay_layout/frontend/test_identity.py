"""Tables by identity."""

import weakref

import numpy as np

from relay_layout.frontend.identity import ByIdentity


class _Object:
    pass


def test_equal_objects_are_two_keys() -> None:
    first, second = np.zeros(2), np.zeros(2)
    table: ByIdentity[np.ndarray, str] = ByIdentity()
    table[first] = "first"
    assert table.get(first) == "first"
    assert table.get(second) is None
    assert second not in table


def test_an_object_lives_as_long_as_what_is_kept_for_it() -> None:
    table: ByIdentity[_Object, int] = ByIdentity()
    key = _Object()
    alive = weakref.ref(key)
    table[key] = 1
    del key
    assert alive() is not None


def test_what_is_kept_is_made_once() -> None:
    asked = []

    def make(key: list[int]) -> int:
        asked.append(key)
        return len(key)

    table: ByIdentity[list[int], int] = ByIdentity()
    key = [5, 6]
    assert [table.kept(key, make), table.kept(key, make)] == [2, 2]
    assert asked == [key]
