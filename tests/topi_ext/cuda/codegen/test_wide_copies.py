"""Which stores of vectors are asynchronous copies."""

import pytest
import tvm
from tvm import tirx

from topi_ext.cuda.codegen.wide_copies import widen_copies


@pytest.mark.parametrize(
    ("target", "source", "is_copy"),
    [
        ((8, 1), (16, 1), True),
        ((8, 1), (16, 2), False),
        ((8, 2), (16, 1), False),
        ((8, 1), (4, 1), False),
        ((4, 1), (16, 1), False),
    ],
)
def test_a_copy_is_of_what_lies_side_by_side(
    target: tuple[int, int], source: tuple[int, int], is_copy: bool
) -> None:
    """Eight elements of two bytes, by where they begin and how far each is from the next."""
    data = tirx.decl_buffer((64,), "float16", "data")
    tile = tirx.decl_buffer((64,), "float16", "tile", scope="shared.dyn")
    to, origin = (tirx.Ramp(begin, step, 8) for begin, step in (target, source))
    store = tirx.BufferStore(tile, tirx.BufferLoad(data, [origin]), [to])
    zero = tirx.const(0, "int32")
    group = tirx.AttrStmt(zero, "async_commit_queue_scope", zero, store)
    func = tirx.PrimFunc([data, tile], group).with_attr("global_symbol", "main")
    found = widen_copies()(tvm.IRModule({"main": func}))["main"].body.body
    assert isinstance(found, tirx.Evaluate) == is_copy
    if is_copy:
        _, to_place, _, origin_place, size = found.value.args
        assert [int(part) for part in (to_place, origin_place, size)] == [8, 16, 16]
