"""Products of few rows by transposed activations read the rows of these."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from tvm import IRModule, relax, tirx

import relay_layout
from relay_layout.targets import resolve_target
from tests.relay_layout.lower.row_products import called


def network(rows: int | str, depth: int, words: int | str = "words", *, read_twice: bool = False) -> IRModule:
    numbers = [tirx.Var(each, "int64") if isinstance(each, str) else each for each in (rows, words)]
    query, keys = (
        relax.Var(name, relax.TensorType([1, 2, number, depth], "float32"))
        for name, number in zip(("query", "keys"), numbers, strict=True)
    )
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


@pytest.mark.parametrize("rows", [1, 2, "new"])
def test_dot_products(rows: int | str, tmp_path: Path) -> None:
    module = network(rows, 16)
    relay_layout.compile(module, shipped_records=False).save(tmp_path / "scores.rla")
    session = relay_layout.load(tmp_path / "scores.rla")
    random = np.random.default_rng(0)
    for new, words in itertools.product([rows] if isinstance(rows, int) else [1, 2, 3, 20], [1, 15, 16, 100]):
        query, keys = (random.standard_normal((1, 2, n, 16)).astype("float32") for n in (new, words))
        (found,) = session.run({"query": query, "keys": keys}).values()
        np.testing.assert_allclose(found, query @ keys.transpose(0, 1, 3, 2) / 2, rtol=1e-5, atol=1e-5)
    assert functions(module) == ["fused_row_dots_multiply"]


def test_what_else_reads_the_transpose_still_does() -> None:
    names = functions(network(1, 16, read_twice=True))
    assert sorted(names) == ["fused_row_dots_multiply", "transpose"]


@pytest.mark.parametrize(
    ("rows", "depth", "words"), [(3, 16, "words"), (1, 20, "words"), (1, 16, 15), ("new", 16, 3)]
)
def test_others_are_transposed(rows: int | str, depth: int, words: int | str) -> None:
    assert any("transpose" in name for name in functions(network(rows, depth, words)))


def test_pairs_of_bfloat16_are_of_a_transpose_where_rows_may_be_many() -> None:
    target = resolve_target("znver4", precision="bf16", threads=2)
    kernels = [relay_layout.compile(network(rows, 16), target=target) for rows in (1, "new")]
    few, many = (" ".join(called(each)) for each in kernels)
    assert "row_dots" in few and "row_dots" not in many


def test_rows_by_themselves_are_transposed() -> None:
    points = relax.Var("points", relax.TensorType([1, tirx.Var("count", "int64"), 16], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [points]):
        transposed = builder.emit(relax.op.permute_dims(points, (0, 2, 1)))
        builder.emit_func_output(builder.emit(relax.op.matmul(points, transposed)))
    assert not any("row_dots" in name for name in functions(builder.finalize()))
