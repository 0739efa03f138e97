"""Bindings and the definitions of the extents that they use."""

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_equal

from relay_layout.ir import operator_name
from relay_layout.lower.dynamic_shapes.definitions import define_before_use
from tests.relax_modules import main_of


def module_of(order: list[int]) -> tvm.IRModule:
    """The places up to a number that is known at run time, with the bindings in some order."""
    number, extent = relax.Var("number", relax.TensorType((1,), "int64")), tirx.Var("n", "int64")
    with main_of(number) as builder:
        shape = builder.emit(relax.op.tensor_to_shape(number))
        builder.match_cast(shape, relax.ShapeType([extent]))
        places = builder.emit(relax.op.arange(0, extent, 1, "int64"))
        builder.result = relax.op.negative(places)
    module = builder.finalize()
    main = module["main"]
    (block,) = main.body.blocks
    moved = relax.DataflowBlock([block.bindings[place] for place in order])
    function = relax.Function(main.params, relax.SeqExpr([moved], main.body.body), main.ret_ty)
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def names(module: tvm.IRModule) -> list[str]:
    (block,) = module["main"].body.blocks
    return [
        "cast" if isinstance(binding, relax.MatchCast) else operator_name(binding.value)
        for binding in block.bindings
    ]


def test_an_extent_is_defined_before_its_uses() -> None:
    assert names(module_of([2, 0, 3, 1])) == ["arange", "tensor_to_shape", "negative", "cast"]
    expected = ["tensor_to_shape", "cast", "arange", "negative"]
    assert names(define_before_use(module_of([2, 0, 3, 1]))) == expected


def test_bindings_in_order_stay() -> None:
    module = module_of([0, 1, 2, 3])
    assert structural_equal(define_before_use(module)["main"], module["main"])


def test_extents_of_parameters_are_defined_already() -> None:
    """A cast that names one defines it no second time."""
    extent = tirx.Var("n", "int64")
    data = relax.Var("data", relax.TensorType((extent,), "float32"))
    with main_of(data) as builder:
        doubled = builder.emit(relax.op.add(data, data))
        shape = builder.emit(relax.op.shape_of(doubled))
        builder.match_cast(shape, relax.ShapeType([extent]))
        builder.result = relax.op.negative(doubled)
    module = builder.finalize()
    assert names(define_before_use(module)) == ["add", "shape_of", "cast", "negative"]
