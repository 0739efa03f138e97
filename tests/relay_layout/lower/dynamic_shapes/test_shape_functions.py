"""Functions that compute extents."""

import pytest
import tvm
from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.lower.dynamic_shapes.shape_functions import lower_shapes
from topi_ext.ir import nodes_of, sequence


def of_extents(*names: str) -> tvm.IRModule:
    """Functions that give the same three extents of their inputs."""
    builder = relax.BlockBuilder()
    for name in names:
        rows, columns = tirx.Var("rows", "int64"), tirx.Var("columns", "int64")
        data = relax.Var("data", relax.TensorType([rows, columns], "float32"))
        with builder.function(name, [data]):
            builder.emit_func_output(relax.ShapeExpr([rows + columns, rows * 2, columns // 3]))
    module = builder.get()
    return relax.transform.AttachGlobalSymbol()(module)


def with_a_second(module: tvm.IRModule) -> tvm.IRModule:
    """The module where "other" calls a function with the stores the other way around, as addresses may be."""
    first, second = module.get_global_var("shape_func"), tvm.ir.GlobalVar("shape_func9")
    relax.expr._update_type(second, first.ty)
    function = module[first]
    stores = nodes_of(function.body, tirx.BufferStore)
    other = module.get_global_var("other")
    instead = {each: second for each in module.functions if each.name_hint.startswith("shape_func")}
    changed = structural_map(module[other], (tvm.ir.GlobalVar, lambda each: instead.get(each, each)))
    functions = {**module.functions, other: changed, second: function.with_body(sequence(stores[::-1]))}
    return tvm.IRModule(functions)


def test_stores_are_in_the_order_of_their_places() -> None:
    lowered = lower_shapes(of_extents("main"))
    places = [int(store.indices[0]) for store in nodes_of(lowered["shape_func"].body, tirx.BufferStore)]
    assert places == sorted(places)
    assert len(places) == 3


def test_functions_that_are_alike_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module = of_extents("main", "other")
    lowered = relax.transform.VMShapeLower()(module)
    monkeypatch.setattr(relax.transform, "VMShapeLower", lambda: lambda _: with_a_second(lowered))
    functions = lower_shapes(module).functions
    assert sorted(each.name_hint for each in functions) == ["main", "other", "shape_func"]
