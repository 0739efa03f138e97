"""Products of few rows by transposed activations read the rows of these."""

from pathlib import Path

import numpy as np
import pytest
from tvm import IRModule, relax, tirx

import relay_layout
from tests.relay_layout.lower.row_products import called


def network(
    rows: int, depth: int, axes: tuple[int, ...] = (0, 1, 3, 2), *, read_twice: bool = False
) -> IRModule:
    words = tirx.Var("words", "int64")
    query = relax.Var("query", relax.TensorType([1, 2, rows, depth], "float32"))
    keys = relax.Var("keys", relax.TensorType([1, 2, words, depth], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [query, keys]):
        with builder.dataflow():
            transposed = builder.emit(relax.op.permute_dims(keys, (0, 1, 3, 2)))
            scores = builder.emit(relax.op.matmul(query, transposed))
            result = builder.emit(relax.op.multiply(scores, relax.const(0.5, "float32")))
            both = relax.Tuple([result, transposed]) if read_twice else result
            output = builder.emit_output(both)
        builder.emit_func_output(output)
    return builder.finalize()


def functions(module: IRModule) -> list[str]:
    return called(relay_layout.compile(module, target="x86-64-v4", threads=2, shipped_records=False))


@pytest.mark.parametrize("rows", [1, 2])
def test_dot_products(rows: int, tmp_path: Path) -> None:
    module = network(rows, 16)
    relay_layout.compile(module, shipped_records=False).save(tmp_path / "scores.rla")
    session = relay_layout.load(tmp_path / "scores.rla")
    random = np.random.default_rng(0)
    for words in (1, 15, 16, 100):
        query, keys = (random.standard_normal((1, 2, n, 16)).astype("float32") for n in (rows, words))
        (found,) = session.run({"query": query, "keys": keys}).values()
        np.testing.assert_allclose(found, query @ keys.transpose(0, 1, 3, 2) / 2, rtol=1e-5, atol=1e-5)
    assert functions(module) == ["fused_row_dots_multiply"]


def test_what_else_reads_the_transpose_still_does() -> None:
    names = functions(network(1, 16, read_twice=True))
    assert sorted(names) == ["fused_row_dots_multiply", "transpose"]


@pytest.mark.parametrize(("rows", "depth"), [(3, 16), (1, 20)])
def test_others_are_transposed(rows: int, depth: int) -> None:
    assert any("transpose" in name for name in functions(network(rows, depth)))
