"""Functions of loops have variables for extents; what calls them says of what those are computed."""

from tvm import relax, tirx

from relay_layout.lower.dynamic_shapes.function_extents import name_extents
from tests.relax_modules import main_of


def test_only_functions_of_loops_forget_what_their_extents_are_computed_of() -> None:
    height = tirx.Var("h", "int64")
    data = relax.Var("x", relax.TensorType([height // 8, 4], "float32"))
    with main_of(data, relax.Var("size", relax.ShapeType([height]))) as builder:
        builder.result = relax.op.exp(data)
    module = relax.transform.LegalizeOps()(builder.finalize())
    named = name_extents(module)
    assert "h // 8" in named["main"].script().replace("T.int64(8)", "8")
    loops = named["tir_exp"]
    assert "//" in module["tir_exp"].script() and "//" not in loops.script()
    assert isinstance(loops.params[0].shape[0], tirx.Var)
