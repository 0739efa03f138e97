"""Products of rows whose number is known at run time, in blocks: any number gives what numpy gives."""

from pathlib import Path

import pytest

import relay_layout
from relay_layout.lower.legalize import pixel_rows
from tests.relay_layout.lower.row_products import ROWS, Extents, RowProduct, called


@pytest.mark.parametrize("name", ROWS)
def test_any_number_of_rows(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As where instructions for matrices are better, which this machine need not have.
    monkeypatch.setattr(pixel_rows, "_is_of_dynamic_rows", lambda call: False)
    rows, sizes = ROWS[name]
    names = RowProduct(rows, 24, 37).functions(sizes, tmp_path)
    assert sum("join_rows" in each for each in names) == sum("dense" in each for each in names) == 2


def test_matrix_instructions_get_blocks() -> None:
    compiled = relay_layout.compile(
        RowProduct(("n",), 256, 64).module, target="sapphirerapids", precision="bf16", shipped_records=False
    )
    assert any("cut_rows" in name for name in called(compiled))


@pytest.mark.parametrize("rows", [(5,), ("n", 16), ("n", 4, 4)])
def test_known_rows_are_blocks_of_their_own(rows: Extents) -> None:
    compiled = relay_layout.compile(RowProduct(rows, 24, 37).module, shipped_records=False)
    assert len(called(compiled)) == 2
