"""Constants between numpy and Relax, and layouts applied straight into their memory."""

import gc

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax, tirx

from relay_layout.errors import LayoutError
from relay_layout.ir import (
    bindings_of,
    calls_global,
    constant,
    constant_array,
    factors,
    fields_of,
    function_attributes,
    function_scope,
    with_body,
    with_functions,
    with_main,
    with_new_variables,
)
from relay_layout.layout.transform import apply
from tests.relax_modules import main_of

DTYPES = ("bool", "int8", "uint8", "int64", "float16", "float32", "float64")


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", [*map(np.dtype, DTYPES), np.dtype(ml_dtypes.bfloat16)], ids=str)
def test_constants_keep_their_values(dtype: np.dtype, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    expression = constant(array)
    assert str(expression.ty.dtype) == str(dtype)
    assert constant_array(expression).shape == shape
    assert constant_array(expression).tolist() == array.tolist()


def test_a_constant_does_not_share_the_memory_it_was_made_of() -> None:
    array = np.zeros((2, 3), "float32")
    expression = constant(array.T)
    array[:] = 1.0
    assert constant_array(expression).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(
    ("source", "target"),
    [("OIHW", "OIHW"), ("OIHW", "HWIO"), ("OIHW", "OIHW4o"), ("OIHW", "OIHW16i16o"), ("OIHW", "HWO[a=16]I")],
)
def test_a_layout_applied_into_memory_that_is_there(source: str, target: str) -> None:
    array = np.arange(8 * 6 * 2 * 3, dtype="float32").reshape(8, 6, 2, 3)
    expected = apply(array, source, target)
    memory = np.full_like(expected, -1.0)
    assert apply(array, source, target, out=memory) is memory
    np.testing.assert_array_equal(memory, expected)


@pytest.mark.parametrize("memory", [np.empty((2, 3), "float32"), np.empty((2, 3), "float32").T])
def test_memory_that_does_not_fit_is_refused(memory: np.ndarray) -> None:
    with pytest.raises(LayoutError) as raised:
        apply(np.zeros((3, 2), "float32"), "NC", "NC", out=memory)
    rows, columns = memory.shape
    assert str(raised.value) == f"out ({rows}, {columns}): give a C-contiguous array of (3, 2)"


def test_factors_of_an_extent() -> None:
    height, width = (tirx.Var(name, "int64") for name in "hw")
    assert factors(12) == (12, [])
    number, others = factors(height * (width * 4 - 2) * 3)
    assert (number, [str(other) for other in others]) == (6, ["h", "w * T.int64(2) - T.int64(1)"])
    assert factors(height + 1)[0] == 1


def _module_of_two_blocks() -> tvm.IRModule:
    parameter = relax.Var("data", relax.TensorType([2], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [parameter], attrs={"num_input": 1}):
        with builder.dataflow():
            first = builder.emit_output(relax.op.exp(parameter), "first")
        second = builder.emit(relax.op.negative(first), "second")
        builder.emit_func_output(second)
    return builder.get()


def test_bindings_are_those_of_all_blocks() -> None:
    function = _module_of_two_blocks()["main"]
    assert len(function.body.blocks) == 2
    assert [binding.var.name for binding in bindings_of(function)] == ["first", "second"]


def test_a_function_with_another_body_keeps_its_attributes_and_its_module_the_old_one() -> None:
    module = _module_of_two_blocks()
    main = module["main"]
    more = relax.Var("more", relax.TensorType([3], "float32"))
    body = relax.SeqExpr([], more)
    changed = with_body(main, body, parameters=[*main.params, more], returned=more.ty)
    updated = with_main(module, changed)["main"]
    assert [parameter.name for parameter in updated.params] == ["data", "more"]
    assert function_attributes(updated)["num_input"] == 1
    assert [int(extent) for extent in updated.ret_ty.shape.values] == [3]
    assert len(bindings_of(module["main"])) == 2


def test_types_in_a_type() -> None:
    tensor = relax.TensorType((2,), "float32")
    assert fields_of(tensor) == [tensor]
    assert fields_of(relax.TupleType([tensor, tensor])) == [tensor, tensor]
    assert fields_of(relax.TupleType([])) == []


def test_calls_of_functions_by_name() -> None:
    data = relax.Var("data", relax.TensorType((2,), "float32"))
    assert calls_global(relax.Call(tvm.ir.GlobalVar("kernel"), [data]))
    assert not calls_global(relax.op.nn.relu(data))
    assert not calls_global(data)


def test_a_module_of_other_functions_keeps_what_else_it_says() -> None:
    module = tvm.IRModule({}, attrs={"mark": 1})
    assert with_functions(module, {}).attrs["mark"] == 1


def test_a_copy_shares_no_variables_though_an_extent_depends_on_a_condition() -> None:
    rows = tvm.tirx.Var("rows", "int64")
    data = relax.Var("data", relax.TensorType([1, 4, rows, 6], "float32"))
    with main_of(data, attrs={"num_input": 1}) as builder:
        pooled = builder.emit(relax.op.nn.avg_pool2d(data, [2, 2], [2, 2], [1, 0, 1, 1], ceil_mode=True))
        builder.result = relax.op.exp(pooled)
    function = builder.finalize()["main"]
    assert "if_then_else" in str(function.ret_ty)
    copied = with_new_variables(function)
    tvm.ir.assert_structural_equal(copied, function)
    own, others = (relax.analysis.all_vars(each) for each in (copied, function))
    assert len(own) == len(others) and not set(own) & set(others)
    assert not relax.analysis.free_vars(copied) and not relax.analysis.free_symbolic_vars(copied)
    module = tvm.IRModule({"main": function, "copy": copied.with_attr("global_symbol", "copy")})
    relax.analysis.well_formed(module)


def test_an_exception_within_a_function_is_told_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """TVM would add a warning of blocks that were left open."""
    builder = relax.BlockBuilder()
    with pytest.raises(LayoutError), function_scope(builder, "main", []), builder.dataflow():
        raise LayoutError("no")
    del builder
    gc.collect()
    assert capfd.readouterr() == ("", "")
