"""The last chunk of tiles: nothing is computed for tiles that are not there."""

import numpy as np
import pytest
import tvm
from tvm import te, tirx

from topi_ext.schedule.blocks import child_blocks, open_schedule
from topi_ext.schedule.last_chunk import end_with, mark_chunk, mark_tiles

CHUNK, CHUNKS = 6, 3
COUNT = tirx.Var("count", "int64")


def ended(*, at_once: int = 1, whole: int = 1, by_chunk: bool = True) -> np.ndarray:
    """How many of 18 tiles are written, for each count of tiles from 1 to 18."""
    shape = (CHUNKS, CHUNK)
    count = te.placeholder((COUNT,), "float32", name="count")
    ones = te.compute(shape, lambda chunk, place: count[0] + chunk * 0 + place * 0, name="ones")
    sch = open_schedule(te.create_prim_func([count, ones], index_dtype_override="int64"))
    chunk, place = sch.get_loops(child_blocks(sch)[0])
    if by_chunk:
        mark_chunk(sch, chunk, CHUNK)
        place, _ = sch.split(place, [None, at_once])
    else:
        place = sch.fuse(chunk, place)
    mark_tiles(sch, place, at_once, whole)
    func = end_with(sch.mod["main"], COUNT)
    main = tvm.compile(func.with_attr("global_symbol", "main"), target="llvm")["main"]
    written = []
    for tiles in range(1, CHUNKS * CHUNK + 1):
        found = tvm.runtime.tensor(np.zeros(shape, "float32"))
        main(tvm.runtime.tensor(np.ones(tiles, "float32")), found)
        flat = found.numpy().ravel()
        assert (np.diff(flat) <= 0).all(), flat
        written.append(int(flat.sum()))
    return np.array(written)


TILES = np.arange(1, CHUNKS * CHUNK + 1)


@pytest.mark.parametrize("by_chunk", [True, False])
def test_a_loop_ends_with_the_last_tile(by_chunk: bool) -> None:
    np.testing.assert_array_equal(ended(by_chunk=by_chunk), TILES)


@pytest.mark.parametrize(("at_once", "whole"), [(2, 2), (3, 3), (1, 3), (2, 6)])
def test_register_tiles_are_whole(at_once: int, whole: int) -> None:
    np.testing.assert_array_equal(ended(at_once=at_once, whole=whole), -(-TILES // whole) * whole)
