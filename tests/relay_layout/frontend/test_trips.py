"""How many operations trips are written out to."""

import pytest

from relay_layout.frontend.trips import TooMany, WrittenOut


def test_what_is_too_many_for_one_loop_is_forgotten() -> None:
    written = WrittenOut("model", most=10)
    written.add(4)
    with pytest.raises(TooMany), written.at_most(3):
        written.add(2)
        written.add(2)
    assert (written.operations, written.most) == (4, 10)


def test_all_loops_together_have_no_more() -> None:
    written = WrittenOut("model", most=10)
    with written.at_most(8):
        written.add(8)
    with pytest.raises(TooMany, match="model: more than 10 nodes of trips"), written.at_most(8):
        written.add(3)
