"""Attention becomes one function where nothing else needs what is inside, and computes the same."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.environment.host import cpu_features
from relay_layout.ir import operator_name
from relay_layout.lower.fusion.attention import join_attention
from relay_layout.lower.passes import fuse_passes, legalize_passes, machine_passes, memory_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.targets import resolve_target
from tests.attention_graphs import Build, module_of, random_attention, softmax
from topi_ext.codegen.build import PIPELINE

op = relax.op


def plain(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.matmul(given["q"], given["k"]))
    return op.matmul(emit(op.nn.softmax(scores, -1)), given["v"])


SHAPES: dict[str, tuple[Any, ...]] = {"q": (2, 3, 17, 8), "k": (2, 3, 8, 21), "v": (2, 3, 21, 12)}


def calls(module: tvm.IRModule) -> list[str]:
    """Operators and functions that main calls, in order."""
    values = [binding.value for block in module["main"].body.blocks for binding in block.bindings]
    return [
        str(value.op.name_hint) if isinstance(value.op, tvm.ir.GlobalVar) else operator_name(value)
        for value in values
        if isinstance(value, relax.Call)
    ]


def run(
    module: tvm.IRModule, arrays: list[np.ndarray], *, precision: str | None = None, is_joined: bool = True
) -> np.ndarray:
    """The result of all passes; every attention must be taken by its rule."""
    target = resolve_target("native") if precision is None else resolve_target("native", precision=precision)
    with target.tvm_target:
        lowered = tvm.transform.Sequential([*legalize_passes(target), *fuse_passes(target)])(module)
        names = [variable.name_hint for variable in lowered.get_global_vars()]
        assert any("attention" in name for name in names) == is_joined, names
        scheduled, _ = schedule_functions(lowered, target)
        for variable, function in scheduled.functions_items():
            if "attention" in variable.name_hint:
                assert "own_row" in function.script(), "blocks of rows"
        made = tvm.transform.Sequential([*memory_passes(target), *machine_passes()])(scheduled)
        executable = tvm.compile(made, target.tvm_target, relax_pipeline=None, tir_pipeline=PIPELINE)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found: np.ndarray = machine["main"](*map(tvm.runtime.tensor, arrays)).numpy()
    return found


# Of the last one TVM's pass for common terms makes variables that are read before they are defined.
@pytest.mark.parametrize("seed", [*range(20), 153])
def test_random_attention(seed: int) -> None:
    module, arrays, expected = random_attention(seed)
    found = run(module, list(arrays.values()))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=f"random_attention({seed})")


@pytest.mark.parametrize("seed", range(12))
def test_random_attention_in_bfloat16(seed: int) -> None:
    module, arrays, expected = random_attention(seed)
    if not {"avx512bf16"} <= (cpu_features() or set()):
        pytest.skip("this machine does not multiply bfloat16 by vectors")
    found = run(module, list(arrays.values()), precision="bf16")
    largest = np.nanmax(np.abs(expected))
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=0.02 * largest, err_msg=f"random_attention({seed})"
    )


def test_bfloat16_between_functions() -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        # What comes from other functions is stored as bfloat16.
        narrow = {name: emit(op.nn.relu(value)) for name, value in given.items()}
        return op.nn.relu(emit(op.permute_dims(emit(plain(emit, narrow)), [0, 2, 1, 3])))

    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, "float32") for shape in SHAPES.values()]
    query, key, value = (array.astype("float64") for array in arrays)
    expected = (softmax(query @ key) @ value).transpose(0, 2, 1, 3)
    if not {"avx512bf16"} <= (cpu_features() or set()):
        pytest.skip("this machine does not multiply bfloat16 by vectors")
    np.testing.assert_allclose(run(module_of(build, **SHAPES), arrays, precision="bf16"), expected, rtol=0.02)


def test_what_is_joined() -> None:
    joined = join_attention(module_of(plain, **SHAPES))
    assert calls(joined) == ["attention"]


def test_shifted_windows_of_any_batch() -> None:
    """Scores have a bias for each head, and between two reshapes a mask for each window of an image."""
    rng = np.random.default_rng(0)
    images, windows = tirx.Var("n", "int64"), (2, 3)
    bias = rng.standard_normal((1, 3, 17, 21)).astype("float32")
    mask = rng.standard_normal((1, 2, 1, 17, 21)).astype("float32")

    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        query, key, value = (
            emit(op.reshape(each, (images * 2, *each.ty.shape.values[2:]))) for each in given.values()
        )
        scores = emit(op.add(emit(op.matmul(query, key)), relax.const(bias)))
        masked = emit(op.add(emit(op.reshape(scores, (images, *windows, 17, 21))), relax.const(mask)))
        shares = emit(op.nn.softmax(emit(op.reshape(masked, (images * 2, 3, 17, 21))), -1))
        return op.reshape(emit(op.matmul(shares, value)), (images, *windows, 17, 12))

    matrices = {"q": (17, 8), "k": (8, 21), "v": (21, 12)}
    module = module_of(build, **{name: (images, *windows, *shape) for name, shape in matrices.items()})
    assert calls(join_attention(module)) == ["attention"]
    arrays = [rng.standard_normal((4, *windows, *shape)).astype("float32") for shape in matrices.values()]
    query, key, value = (array.astype("float64") for array in arrays)
    expected = softmax(query @ key + bias + mask) @ value
    np.testing.assert_allclose(run(module, arrays), expected, rtol=1e-4, atol=1e-5)


def test_equal_attentions_share_a_function() -> None:
    def build(emit: Any, given: dict[str, relax.Var]) -> Any:
        first = emit(plain(emit, given))
        return op.add(first, emit(plain(emit, given)))

    joined = join_attention(module_of(build, **SHAPES))
    assert calls(joined) == ["attention", "attention", "add"]
    assert len(joined.get_global_vars()) == 2


def _scores_are_read(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.matmul(given["q"], given["k"]))
    result = emit(op.matmul(emit(op.nn.softmax(scores, -1)), given["v"]))
    return op.add(result, emit(op.sum(scores, -1, True)))


def _no_softmax(emit: Any, given: dict[str, relax.Var]) -> Any:
    return op.matmul(emit(op.matmul(given["q"], given["k"])), given["v"])


def _along_rows(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.matmul(given["q"], given["k"]))
    return op.matmul(emit(op.nn.softmax(scores, 2)), given["v"])


def _constant_values(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.matmul(given["q"], given["k"]))
    return op.matmul(emit(op.nn.softmax(scores, -1)), relax.const(np.ones((21, 12), "float32")))


def _other_rows(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.reshape(emit(op.matmul(given["q"], given["k"])), (2, 51, 21)))
    shares = emit(op.reshape(emit(op.nn.softmax(scores, -1)), (2, 3, 17, 21)))
    return op.matmul(shares, given["v"])


@pytest.mark.parametrize("build", [_scores_are_read, _no_softmax, _along_rows, _constant_values, _other_rows])
def test_what_is_not_joined(build: Build) -> None:
    assert "attention" not in calls(join_attention(module_of(build, **SHAPES)))


BATCHES = {
    "values have a one before": ((4,), (4,), (1, 4), True),
    "rows have a one before": ((1, 4), (4,), (4,), True),
    "columns have ones before": ((4,), (1, 1, 4), (4,), True),
    "values of each batch": ((1,), (1,), (4,), False),
    "values of more batches": ((4,), (4,), (3, 4), False),
    "values for all batches": ((4,), (4,), (1,), True),
    "rows for all columns": ((1,), (4,), (4,), True),
    "columns for all rows": ((2, 3), (1, 3), (2, 1), True),
    "fewer dimensions": ((2, 3), (3,), (3,), True),
}
"""Batches of rows, columns and values, and whether they are joined."""


@pytest.mark.parametrize("case", BATCHES)
def test_batches_of_other_shapes(case: str) -> None:
    *batches, is_joined = BATCHES[case]
    query, key, value = ((17, 8), (8, 21), (21, 12))
    shapes = {"q": (*batches[0], *query), "k": (*batches[1], *key), "v": (*batches[2], *value)}
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes.values()]
    found = run(module_of(plain, **shapes), arrays, is_joined=is_joined)
    rows, columns, values = (array.astype("float64") for array in arrays)
    np.testing.assert_allclose(found, softmax(rows @ columns) @ values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_symbolic_matrices_are_not_joined(name: str) -> None:
    extent = tirx.Var("n", "int64")
    known: dict[str, tuple[Any, ...]] = {
        "q": {"q": (2, 3, extent, 8)},
        "k": {"k": (2, 3, 8, extent), "v": (2, 3, extent, 12)},
        "v": {"v": (2, 3, 21, extent)},
    }[name]  # type: ignore[assignment]
    assert "attention" not in calls(join_attention(module_of(plain, **(SHAPES | known))))


def _masked(emit: Any, given: dict[str, relax.Var]) -> Any:
    scores = emit(op.add(emit(op.matmul(given["q"], given["k"])), given["m"]))
    return op.matmul(emit(op.nn.softmax(scores, -1)), given["v"])


@pytest.mark.parametrize("number", [1, 5, 18, 70, 520])
@pytest.mark.parametrize("precision", [None, "bf16"])
@pytest.mark.parametrize("is_product", [False, True], ids=["", "height by width"])
def test_as_many_rows_as_scores(is_product: bool, precision: str | None, number: int) -> None:
    """Of a text of any length, or of the pixels of an image of any size."""
    if precision == "bf16" and not {"avx512bf16"} <= (cpu_features() or set()):
        pytest.skip("this machine does not multiply bfloat16 by vectors")
    images, side = tirx.Var("n", "int64"), tirx.Var("h", "int64")
    pixels = side * (side + 1) if is_product else side
    module = module_of(
        _masked,
        q=(images, 3, pixels, 8),
        k=(images, 3, 8, pixels),
        v=(images, 3, pixels, 12),
        m=(images, 1, 1, pixels),
        x=(side,),
    )
    assert calls(join_attention(module)) == ["attention"]
    given = int(number**0.5) if is_product else number
    rows = given * (given + 1) if is_product else number
    rng = np.random.default_rng(number)
    shapes = [(2, 3, rows, 8), (2, 3, 8, rows), (2, 3, rows, 12), (2, 1, 1, rows)]
    arrays = [rng.standard_normal(shape).astype("float32") for shape in shapes]
    query, key, value, mask = (array.astype("float64") for array in arrays)
    found = run(module, [*arrays, np.zeros(given, "float32")], precision=precision)
    allowed = 2e-5 if precision is None else 0.02
    expected = softmax(query @ key + mask) @ value
    np.testing.assert_allclose(found, expected, rtol=0, atol=allowed * np.abs(expected).max())


def test_few_columns_are_not_joined() -> None:
    few = SHAPES | {"v": (2, 3, 21, 3)}
    assert "attention" not in calls(join_attention(module_of(plain, **few)))
