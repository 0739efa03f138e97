"""Overlapping tail tiles: the same shape for every tile, no predicate, the same numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from kernel_bounds import out_of_bounds
from kernel_harness import compile_function, host_cpus, integers, run_guarded, target_for
from tvm import te, tirx
from tvm.s_tir import SBlockRealize, Schedule
from tvm_ffi import structural_equal

from topi_ext.ir import nodes_of
from topi_ext.schedule.overlap import PADDED_LANES, TILE_LOOP, apply_overlap, overlap_tail

TARGET = target_for(host_cpus()[-1])

Arrange = Callable[[Schedule], None]


def doubled(*extents: Any, index_dtype: str | None = None) -> tirx.PrimFunc:
    """out = 2 * (data + 1), in two blocks."""
    data = te.placeholder(extents, name="data")
    between = te.compute(extents, lambda *index: data(*index) + 1.0, name="between")
    out = te.compute(extents, lambda *index: between(*index) * 2.0, name="out")
    return te.create_prim_func([data, out], index_dtype)


def loops_of(sch: Schedule, block: str = "out") -> list[Any]:
    return list(sch.get_loops(sch.get_sblock(block)))


def conditions(func: tirx.PrimFunc) -> list[str]:
    """The predicates that are left on blocks."""
    found = nodes_of(func.body, SBlockRealize)
    predicates = [str(realize.predicate) for realize in found]
    return [predicate for predicate in predicates if predicate not in ("T.bool(True)", "True")]


def check(func: tirx.PrimFunc, arrange: Arrange, left: int = 0) -> tirx.PrimFunc:
    """Arrange, rewrite, run; ``left`` predicates may stay."""
    sch = Schedule(func)
    arrange(sch)
    arranged = sch.mod["main"]
    result = apply_overlap(arranged)
    assert len(conditions(result)) == left, conditions(result)
    assert TILE_LOOP not in str(result)
    assert out_of_bounds(result) == []
    shape = [int(size) for size in result.params[0].shape]
    data = integers(np.random.default_rng(0), shape)
    got = run_guarded(compile_function(result, TARGET), [data], shape)
    np.testing.assert_array_equal(got, (data + 1) * 2)
    return result


@pytest.mark.parametrize("index_dtype", [None, "int64"])
@pytest.mark.parametrize(("extent", "tile"), [(7, 4), (11, 4), (5, 4), (9, 8), (13, 3), (4, 4), (8, 4)])
def test_one_axis(extent: int, tile: int, index_dtype: str | None) -> None:
    def arrange(sch: Schedule) -> None:
        outer, inner = sch.split(loops_of(sch)[0], [None, tile])
        sch.vectorize(inner)
        overlap_tail(sch, outer)

    check(doubled(extent, index_dtype=index_dtype), arrange)


def test_the_last_tile_ends_at_the_edge() -> None:
    def arrange(sch: Schedule) -> None:
        outer, _ = sch.split(loops_of(sch)[0], [None, 4])
        overlap_tail(sch, outer)

    assert "T.min(i0_0 * 4, 3) + i0_1" in str(check(doubled(7), arrange))


def test_two_axes_marked_on_their_own_loops() -> None:
    def arrange(sch: Schedule) -> None:
        row, column = loops_of(sch)
        rows, row = sch.split(row, [None, 4])
        columns, column = sch.split(column, [None, 3])
        sch.reorder(rows, columns, row, column)
        overlap_tail(sch, rows)
        overlap_tail(sch, columns)

    check(doubled(7, 11), arrange)


def test_two_axes_of_one_tile() -> None:
    def arrange(sch: Schedule) -> None:
        row, column = loops_of(sch)
        rows, row = sch.split(row, [None, 4])
        columns, column = sch.split(column, [None, 3])
        sch.reorder(rows, columns, row, column)
        overlap_tail(sch, columns)

    check(doubled(7, 11), arrange)


def test_an_axis_of_which_the_tile_is_not_marked_keeps_its_predicate() -> None:
    def arrange(sch: Schedule) -> None:
        row, column = loops_of(sch)
        sch.split(row, [None, 4])
        columns, _ = sch.split(column, [None, 3])
        overlap_tail(sch, columns)

    check(doubled(7, 11), arrange, left=1)


@pytest.mark.parametrize("parallel", [False, True])
def test_fused_loops(parallel: bool) -> None:
    def arrange(sch: Schedule) -> None:
        row, column = loops_of(sch)
        rows, row = sch.split(row, [None, 4])
        columns, column = sch.split(column, [None, 3])
        sch.reorder(rows, columns, row, column)
        fused = sch.fuse(rows, columns)
        if parallel:
            sch.parallel(fused)
        overlap_tail(sch, fused)

    check(doubled(7, 11), arrange)


def test_a_tile_in_two_levels_moves_as_a_whole() -> None:
    def arrange(sch: Schedule) -> None:
        outer, _, _ = sch.split(loops_of(sch)[0], [None, 2, 4])
        overlap_tail(sch, outer)

    assert "T.min(i0_0 * 8, 3)" in str(check(doubled(11), arrange))


def test_a_producer_in_the_tile_moves_along() -> None:
    def arrange(sch: Schedule) -> None:
        outer, _ = sch.split(loops_of(sch)[0], [None, 4])
        sch.compute_at(sch.get_sblock("between"), outer)
        overlap_tail(sch, outer)

    check(doubled(11), arrange)


def test_a_tile_that_trims_its_own_loops_keeps_its_length() -> None:
    """Seven elements walked as two vectors of four: the tile is seven long, and its own predicate stays."""

    def arrange(sch: Schedule) -> None:
        outer, inner = sch.split(loops_of(sch)[0], [None, 7])
        sch.split(inner, [None, 4])
        overlap_tail(sch, outer)

    result = check(doubled(11), arrange, left=1)
    assert "T.min(i0_0 * 7, 4)" in str(result)


def test_a_local_predicate_is_no_edge() -> None:
    """An inner axis cut into vectors has nothing to do with the marked tile around it."""

    def arrange(sch: Schedule) -> None:
        row, column = loops_of(sch)
        rows, _ = sch.split(row, [None, 4])
        sch.split(column, [None, 16])
        overlap_tail(sch, rows)

    check(doubled(7, 20), arrange, left=1)


def test_blocks_that_cannot_move_are_refused() -> None:
    """A tile over fused rows and columns bounds neither rows nor columns."""
    sch = Schedule(doubled(5, 3))
    outer, _ = sch.split(sch.fuse(*loops_of(sch)), [None, 4])
    overlap_tail(sch, outer)
    with pytest.raises(RuntimeError, match=r"^no axis of block 'out' is bounded by .* < 15$"):
        apply_overlap(sch.mod["main"])


def test_a_function_without_marks_comes_back_as_it_was() -> None:
    sch = Schedule(doubled(11))
    sch.split(loops_of(sch)[0], [None, 4])
    assert structural_equal(apply_overlap(sch.mod["main"]), sch.mod["main"])


def test_vectors_of_rows_whose_number_is_unknown_do_not_seem_to_overrun() -> None:
    """The third vector of 40 elements is partial, and begins where it always would."""
    sch = Schedule(doubled(tirx.Var("rows", "int64"), 40, index_dtype="int64"))
    row, column = loops_of(sch)
    vector, lane = sch.split(column, [None, 16])
    sch.reorder(vector, row, lane)
    overlap_tail(sch, sch.fuse(vector, row))
    sch.annotate(sch.get_sblock("out"), PADDED_LANES, 16)
    assert "T.min" not in apply_overlap(sch.mod["main"]).script()
