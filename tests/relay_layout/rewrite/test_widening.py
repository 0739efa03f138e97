"""float32 in the place of half precision, beside numpy's numbers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import IRModule, relax, tirx, topi
from tvm_ffi import structural_equal

import relay_layout
from relay_layout.errors import InputError
from relay_layout.ir import dtype_of, operator_name, shape_of
from relay_layout.rewrite.widening import widen, with_wide_border
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

Emit = Callable[[relax.BlockBuilder, relax.Var], Any]
HALVES = ("float16", "bfloat16")
RANDOM = np.random.default_rng(3)


def module_of(emit: Emit, dtype: str = "float16", shape: tuple[int, ...] = (1, 3, 8, 8)) -> IRModule:
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with main_of(x) as builder:
        builder.result = emit(builder, x)
    return builder.finalize()


def calls(module: IRModule) -> list[relax.Call]:
    return [
        binding.value
        for block in module["main"].body.blocks
        for binding in block.bindings
        if isinstance(binding.value, relax.Call)
    ]


def dtypes(module: IRModule) -> list[str]:
    """Of what is computed between the first call and the last."""
    return [str(call.ty.dtype) for call in calls(module)[:-1]]


def convolved(builder: relax.BlockBuilder, x: relax.Var) -> Any:
    weight = relax.const(RANDOM.standard_normal((4, 3, 3, 3)).astype("float16"))
    found = builder.emit(relax.op.nn.conv2d(x, weight, out_dtype="float16"))
    return relax.op.nn.relu(builder.emit(relax.op.add(found, relax.const(0.5, "float16"))))


def test_only_the_border_is_in_half_precision() -> None:
    widened = widen(module_of(convolved), HALVES)
    names = [operator_name(call) for call in calls(widened)]
    assert names == ["astype", "nn.conv2d", "add", "nn.relu", "astype"]
    assert dtypes(widened) == ["float32"] * 4
    assert str(widened["main"].params[0].ty.dtype) == str(widened["main"].ret_ty.dtype) == "float16"
    relax.analysis.well_formed(widened)


def test_other_types_stay() -> None:
    module = module_of(lambda builder, x: relax.op.add(x, relax.const(1, "int32")), "int32")
    assert structural_equal(widen(module, HALVES), module)
    half = module_of(convolved)
    assert structural_equal(widen(half, ("bfloat16",)), half)


def test_an_island_between_casts_disappears() -> None:
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        half = builder.emit(relax.op.astype(x, "float16"))
        doubled = builder.emit(relax.op.add(half, half))
        return relax.op.astype(doubled, "float32")

    widened = widen(module_of(emit, "float32"), HALVES)
    assert [operator_name(call) for call in calls(widened)] == ["add"]


def test_a_parameter_is_converted_once() -> None:
    widened = widen(module_of(lambda builder, x: relax.op.multiply(x, x)), HALVES)
    assert [operator_name(call) for call in calls(widened)] == ["astype", "multiply", "astype"]


@pytest.mark.parametrize(
    "create",
    [
        lambda builder, x: relax.op.zeros((2, 2), "float16"),
        lambda builder, x: relax.op.full((2, 2), relax.const(3, "float16"), "float16"),
        lambda builder, x: relax.op.astype(relax.const([1, 2], "int64"), "float16"),
    ],
    ids=["zeros", "full", "cast"],
)
def test_attributes_that_name_the_type(create: Emit) -> None:
    widened = widen(module_of(create), HALVES)
    assert str(calls(widened)[0].ty.dtype) == "float32"
    assert str(widened["main"].ret_ty.dtype) == "float16"


def test_results_in_a_tuple() -> None:
    widened = widen(module_of(lambda builder, x: relax.op.split(x, 2, 2)), HALVES)
    assert [str(field.dtype) for field in widened["main"].body.body.ty.fields] == ["float16"] * 2
    relax.analysis.well_formed(widened)


def test_functions_keep_their_types() -> None:
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        doubled = builder.emit(relax.op.add(x, x))
        return builder.emit_te(topi.exp, doubled)

    widened = widen(module_of(emit), HALVES)
    assert dtypes(widened) == ["float32", "float32", "float16", "float16", "float32"]
    relax.analysis.well_formed(widened)


def test_declared_shapes() -> None:
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        doubled = builder.emit(relax.op.add(x, x))
        return relax.op.exp(builder.match_cast(doubled, relax.TensorType((1, 3, 8, 8), "float16")))

    widened = widen(module_of(emit), HALVES)
    assert str(widened["main"].body.body.ty.dtype) == "float16"
    relax.analysis.well_formed(widened)


INDICES = relax.const(np.array([[0, 2], [1, 1]]), "int64")


@pytest.mark.parametrize(
    ("pick", "shape"),
    [
        (lambda data: relax.op.take(data, INDICES, axis=0), (2, 2, 4)),
        (lambda data: relax.op.gather_elements(data, INDICES, axis=0), (2, 2)),
        (lambda data: relax.op.gather_nd(data, INDICES), (2,)),
        (lambda data: relax.op.strided_slice(data, [1], [1], [3]), (3, 2)),
    ],
)
@pytest.mark.parametrize("is_constant", [False, True])
def test_what_is_picked_of_a_table_is_converted_alone(
    pick: Callable[[Any], Any], shape: tuple[int, ...], is_constant: bool
) -> None:
    table = relax.const(np.zeros((3, 4), "float16"))

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        picked = builder.emit(pick(table if is_constant else x))
        return relax.op.add(picked, picked)

    widened = relax.transform.DeadCodeElimination()(widen(module_of(emit, shape=(3, 4)), HALVES))
    picked, wide, *_ = calls(widened)
    assert dtype_of(picked) == dtype_of(picked.args[0]) == "float16"
    assert (operator_name(wide), shape_of(wide), dtype_of(wide)) == ("astype", shape, "float32")
    relax.analysis.well_formed(widened)


@pytest.mark.parametrize(
    "move",
    [
        lambda builder, x: relax.op.permute_dims(x, [0, 2, 3, 1]),
        lambda builder, x: relax.op.reshape(builder.emit(relax.op.flip(x, 1)), [3, 64]),
        lambda builder, x: relax.op.concat([x, x], 1),
        lambda builder, x: relax.op.strided_slice(x, [1], [1], [3]),
    ],
)
def test_what_only_moves_is_not_converted(move: Emit) -> None:
    widened = relax.transform.DeadCodeElimination()(widen(module_of(move), HALVES))
    assert {dtype_of(call) for call in calls(widened)} == {"float16"}
    assert "astype" not in [operator_name(call) for call in calls(widened)]
    relax.analysis.well_formed(widened)


def test_what_was_computed_is_converted_before_it_joins_what_only_moves() -> None:
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        return relax.op.concat([x, builder.emit(relax.op.exp(x))], 1)

    widened = relax.transform.DeadCodeElimination()(widen(module_of(emit), HALVES))
    assert [(operator_name(call), dtype_of(call)) for call in calls(widened)] == [
        ("astype", "float32"),
        ("exp", "float32"),
        ("astype", "float16"),
        ("concat", "float16"),
    ]
    relax.analysis.well_formed(widened)


def session_of(module: IRModule, folder: Path) -> relay_layout.Session:
    path = folder / "network.rla"
    relay_layout.compile(module).save(path)
    return relay_layout.load(path)


def test_a_network_in_float16_rounds_its_results_alone(tmp_path: Path) -> None:
    weight = RANDOM.standard_normal((16, 64, 1, 1)).astype("float16")

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        return relax.op.nn.conv2d(x, relax.const(weight), out_dtype="float16")

    session = session_of(module_of(emit, shape=(1, 64, 5, 5)), tmp_path)
    x = RANDOM.standard_normal((1, 64, 5, 5)).astype("float16")
    (ours,) = session.run({"x": x}).values()
    exact = np.einsum("oi,nihw->nohw", weight[:, :, 0, 0].astype("float64"), x.astype("float64"))
    assert ours.dtype == np.float16
    np.testing.assert_allclose(ours, exact, rtol=2**-10.9, atol=1e-5)
    with pytest.raises(InputError) as raised:
        session.run({"x": x.astype("float32")})
    assert str(raised.value) == (
        "input 'x': expected float16 [1, 64, 5, 5], got float32 [1, 64, 5, 5]; "
        "convert with .astype('float16')"
    )


def test_bfloat16_inside(tmp_path: Path) -> None:
    factor = np.array(1.5, ml_dtypes.bfloat16)

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        half = builder.emit(relax.op.astype(x, "bfloat16"))
        scaled = builder.emit(relax.op.multiply(half, relax.const(factor, "bfloat16")))
        return relax.op.astype(scaled, "float32")

    x = RANDOM.standard_normal((2, 3)).astype("float32")
    (ours,) = session_of(module_of(emit, "float32", (2, 3)), tmp_path).run({"x": x}).values()
    np.testing.assert_array_equal(ours, x * np.float32(1.5))


def test_bfloat16_at_the_border_is_float32(tmp_path: Path) -> None:
    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        doubled = builder.emit(relax.op.add(x, x))
        return relax.Tuple([x, doubled, builder.emit(relax.op.astype(doubled, "float16"))])

    session = session_of(module_of(emit, "bfloat16", (tirx.Var("n", "int64"), 3)), tmp_path)
    assert [(spec.name, spec.shape, spec.dtype) for spec in session.inputs] == [("x", ("n", 3), "float32")]
    x = RANDOM.standard_normal((2, 3)).astype(ml_dtypes.bfloat16).astype("float32")
    same, doubled, half = session.run({"x": x}).values()
    assert [tensor.dtype.name for tensor in (same, doubled, half)] == ["float32", "float32", "float16"]
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(doubled, 2 * x)
    np.testing.assert_allclose(half, 2 * x, rtol=2**-11)
    with pytest.raises(InputError) as raised:
        session.run({"x": x.astype(ml_dtypes.bfloat16)})
    assert str(raised.value) == (
        "input 'x': expected float32 [n, 3], got bfloat16 [2, 3]; convert with .astype('float32')"
    )


def test_a_table_is_stored_as_it_is(tmp_path: Path) -> None:
    table = RANDOM.standard_normal((5000, 40)).astype("float16")

    def emit(builder: relax.BlockBuilder, x: relax.Var) -> Any:
        rows = builder.emit(relax.op.take(relax.const(table), x, axis=0))
        return relax.op.astype(builder.emit(relax.op.add(rows, rows)), "float32")

    session = session_of(module_of(emit, "int64", (2, 9)), tmp_path)
    assert (tmp_path / "network.rla").stat().st_size < 1.5 * table.nbytes
    indices = RANDOM.integers(0, 5000, (2, 9))
    (ours,) = session.run({"x": indices}).values()
    np.testing.assert_array_equal(ours, 2 * table[indices].astype("float32"))


def test_a_module_without_bfloat16_at_its_border_is_left_alone() -> None:
    module = module_of(lambda builder, x: relax.op.add(x, x))
    assert with_wide_border(module, ("bfloat16",)) is module


@pytest.mark.parametrize(
    ("target", "wide"),
    [
        ("x86-64-v3", {"float16", "bfloat16"}),
        ("aarch64-cortex-a53", {"float16", "bfloat16"}),
        ("aarch64-cortex-a76", {"bfloat16"}),
        ("aarch64-cortex-a53+fullfp16", {"bfloat16"}),
    ],
)
def test_targets(target: str, wide: set[str]) -> None:
    assert set(resolve_target(target).widened_dtypes) == wide
