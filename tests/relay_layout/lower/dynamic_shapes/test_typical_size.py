"""The number that stands in for an open extent where a choice needs one."""

from tvm import tirx

from relay_layout.lower.dynamic_shapes.typical_size import IMAGE, typical_extent


def test_what_divides_by_zero_at_the_typical_size_has_that_size() -> None:
    """Windows of a network that was exported for images of another size."""
    rows = tirx.Var("rows", "int64")
    assert typical_extent(rows // 32 * 36 // (rows // 96 - rows // 112), IMAGE) == IMAGE
    assert typical_extent(rows // 32 * 36 // (rows // 96), IMAGE) == 126
