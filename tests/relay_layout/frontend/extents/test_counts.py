"""Extents that the data decide, and what is known of them."""

from tvm import relax, tirx

from relay_layout.frontend.extents.counts import Counts

SIZE = tirx.Var("size", "int64")


class Counted:
    """A function that counts something, at most 12."""

    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()
        number = relax.Var("number", relax.TensorType((1,), "int64"))
        self.data = relax.Var("data", relax.TensorType((SIZE, 4), "float32"))
        with self.builder.function("main", [number, self.data]):
            with self.builder.dataflow():
                self.counts = Counts(self.builder)
                self.found = self.counts.count(number, 12, "found")
                self.twice = self.counts.plain(self.found * 2, "twice")
                self.again = self.counts.plain(self.found + self.found, "again")
                picked = relax.op.strided_slice(
                    self.data, [0], [0], [self.found + 1], [1], assume_inbound=True
                )
                self.sized = self.counts.sized(self.builder.emit(picked), "picked")
                output = self.builder.emit_output(self.data)
            self.builder.emit_func_output(output)
        self.module = self.builder.finalize()


def test_counts_are_told_from_extents_of_inputs() -> None:
    counted = Counted()
    assert counted.counts.reads_counts(counted.found * 2 + 1)
    assert not counted.counts.reads_counts(SIZE + 1)


def test_what_the_data_decide_may_be_none() -> None:
    counted = Counted()
    assert [counted.counts.least_size(each) for each in (counted.found, SIZE, 4)] == [0, 1, 1]


def test_equal_expressions_get_one_variable() -> None:
    counted = Counted()
    assert isinstance(counted.twice, tirx.Var)
    assert counted.twice.same_as(counted.again)


def test_expressions_without_counts_stay() -> None:
    counted = Counted()
    extent = SIZE + 1
    assert counted.counts.plain(extent, "extent") is extent


def test_extents_computed_from_counts_become_variables() -> None:
    counted = Counted()
    first, second = counted.sized.ty.shape.values
    assert isinstance(first, tirx.Var) and not first.same_as(counted.found)
    assert int(second) == 4
    assert counted.counts.sized(counted.data, "data") is counted.data


def test_the_most_that_an_extent_is_where_a_count_is_zero() -> None:
    counted = Counted()
    found, most = counted.found, counted.counts.most_where_empty
    assert most(found, found) == 0
    assert most(counted.twice, found) == 0
    assert most(found + 5, found) == 5
    assert most(tirx.min(found, SIZE), found) == 0
    assert most(found * SIZE, found) == 0
    assert most(SIZE, found) is None
    assert most(found, SIZE) == 12


def test_equal_products_get_one_variable_however_they_are_multiplied() -> None:
    builder = relax.BlockBuilder()
    numbers = [relax.Var(name, relax.TensorType((1,), "int64")) for name in ("rows", "columns")]
    with builder.function("main", numbers):
        with builder.dataflow():
            counts = Counts(builder)
            rows, columns = (counts.count(number, None, "number") for number in numbers)
            boxes = counts.plain(rows * columns * 15, "boxes")
            area = counts.plain(columns * rows, "area")
            anchors = counts.plain(area * 15, "anchors")
            others = counts.plain(area * 16, "others")
            output = builder.emit_output(numbers[0])
        builder.emit_func_output(output)
    assert anchors.same_as(boxes) and not others.same_as(boxes)
