"""Products of rows whose number is known at run time: any number gives what numpy gives."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import IRModule, relax, tirx

import relay_layout
from relay_layout.lower.dynamic_shapes import row_blocks

RANDOM = np.random.default_rng(2)

Extents = Sequence[int | str]


def network(rows: Extents, elements: int, columns: int) -> tuple[IRModule, np.ndarray, np.ndarray]:
    """Rows by a matrix, a bias and ReLU; names are symbols."""
    matrix = RANDOM.standard_normal((elements, columns)).astype("float32")
    bias = RANDOM.standard_normal(columns).astype("float32")
    symbols = {name: tirx.Var(name, "int64") for name in rows if isinstance(name, str)}
    shape = [symbols[extent] if isinstance(extent, str) else extent for extent in rows]
    data = relax.Var("x", relax.TensorType([*shape, elements], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            product = builder.emit(relax.op.matmul(data, relax.const(matrix)))
            added = builder.emit(relax.op.add(product, relax.const(bias)))
            result = builder.emit_output(relax.op.nn.relu(added))
        builder.emit_func_output(result)
    return builder.finalize(), matrix, bias


def functions(compiled: relay_layout.CompiledModel) -> list[str]:
    (build,) = compiled.manifest.builds
    return [call["function"] for call in build.report["calls"]]


ROWS: dict[str, tuple[Extents, list[tuple[int, ...]]]] = {
    "rows": (("n",), [(1,), (7,), (8,), (9,), (100,), (0,)]),
    "batch_and_rows": (("n", "s"), [(1, 1), (3, 5), (2, 40), (3, 0), (0, 3)]),
    "rows_of_one": ((1, "s"), [(1, 1), (1, 33)]),
    "few_rows_each": (("n", 3), [(1, 3), (7, 3)]),
    "rows_of_images": (("n", "h", 2), [(1, 1, 2), (2, 5, 2)]),
}


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("name", ROWS)
def test_any_number_of_rows(name: str, memory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, sizes = ROWS[name]
    if memory:
        monkeypatch.setattr(row_blocks, "_CACHED_BYTES", 0)
        monkeypatch.setattr(row_blocks, "_PIECE_BYTES", 24 * 37 * 4 // 2)
    module, matrix, bias = network(rows, 24, 37)
    compiled = relay_layout.compile(module, shipped_records=False)
    names = " ".join(functions(compiled))
    assert "join_rows" in names and names.count("dense") == (2 if memory else 1)
    compiled.save(tmp_path / "product.rla")
    session = relay_layout.load(tmp_path / "product.rla")
    for size in sizes:
        data = RANDOM.standard_normal((*size, 24)).astype("float32")
        (found,) = session.run({"x": data}).values()
        expected = np.maximum(data @ matrix + bias, 0)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4, err_msg=str(size))


@pytest.mark.parametrize("rows", [(5,), ("n", 16), ("n", 4, 4)])
def test_known_rows_are_blocks_of_their_own(rows: Extents) -> None:
    module, _, _ = network(rows, 24, 37)
    compiled = relay_layout.compile(module, shipped_records=False)
    assert len(functions(compiled)) == 1
