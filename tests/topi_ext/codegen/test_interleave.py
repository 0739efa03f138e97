"""Stores with gaps that fill each other's gaps."""

from typing import Any

import pytest
import tvm
from tvm import tirx
from tvm_ffi import structural_walk

from topi_ext.codegen.interleave import interleave_stores

A, OUT = tirx.decl_buffer((16,), "float32", "a"), tirx.decl_buffer((24,), "float32", "out")


def row(base: int, stride: int = 1, lanes: int = 8) -> tirx.Ramp:
    return tirx.Ramp(base, stride, lanes)


def store(to: tirx.Ramp, source: tirx.Ramp, buffer: Any = A) -> tirx.BufferStore:
    return tirx.BufferStore(OUT, tirx.BufferLoad(buffer, [source]), [to])


def rewritten(*statements: Any) -> list[Any]:
    """The stores of a function of these statements after the pass."""
    func = tirx.PrimFunc([A, OUT], tirx.SeqStmt(list(statements)))
    found: list[Any] = []
    body = interleave_stores()(tvm.IRModule({"main": func}))["main"].body
    structural_walk(body, (tirx.BufferStore, found.append))
    return found


def test_two_rows_become_one_store() -> None:
    (only,) = rewritten(store(row(0, 2), row(0)), store(row(1, 2), row(8)))
    assert isinstance(only.value, tirx.Shuffle)
    assert [int(lane) for lane in only.value.indices] == [lane // 2 + lane % 2 * 8 for lane in range(16)]
    assert [int(part) for part in (only.indices[0].base, only.indices[0].stride)] == [0, 1]
    assert int(only.indices[0].lanes) == 16


def test_what_is_around_them_is_kept() -> None:
    before, after = store(row(3), row(0)), store(row(5), row(0))
    first, joined, last = rewritten(
        before, *(store(row(place, 3, 4), row(4 * place, lanes=4)) for place in range(3)), after
    )
    assert isinstance(joined.value, tirx.Shuffle)
    assert (int(first.indices[0].base), int(last.indices[0].base)) == (3, 5)


@pytest.mark.parametrize(
    "second",
    [
        store(row(1, 2), row(0), OUT),
        store(row(2, 2), row(0)),
        store(row(1, 2, 4), row(0, lanes=4)),
        store(row(1, 3), row(0)),
        store(row(1), row(0)),
    ],
    ids=["the first is read", "the same places", "other lanes", "another distance", "no gaps"],
)
def test_others_stay_two(second: tirx.BufferStore) -> None:
    found = rewritten(store(row(0, 2), row(0)), second)
    assert len(found) == 2 and not any(isinstance(one.value, tirx.Shuffle) for one in found)


def test_a_gap_that_is_left_stays() -> None:
    found = rewritten(store(row(0, 3), row(0)), store(row(1, 3), row(0)))
    assert len(found) == 2
