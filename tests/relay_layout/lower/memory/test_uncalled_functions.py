"""Functions that nothing calls generate no code."""

from collections.abc import Callable
from typing import Any

import tvm
from tvm import relax, te, tirx

from relay_layout.lower.memory.uncalled_functions import drop_uncalled
from relay_layout.lower.stages import lower, plan_memory
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

TARGET = resolve_target("native", threads=1)
SHAPE = (1, 4, 3, 16)


def module_of(body: Callable[[Callable[[Any], Any], Any], Any]) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType(SHAPE, "float32"))
    with main_of(image) as builder:
        builder.result = body(builder.emit, image)
    return builder.finalize()


def functions(module: tvm.IRModule) -> set[str]:
    return {
        str(variable.name_hint)
        for variable, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }


def test_what_is_computed_in_place_leaves_no_function_behind() -> None:
    def body(emit: Callable[[Any], Any], image: Any) -> Any:
        parts = [
            emit(relax.op.nn.max_pool2d(image, [1, width], [1, 1], [0, width // 2, 0, width // 2]))
            for width in (3, 5)
        ]
        return emit(relax.op.nn.max_pool2d(emit(relax.op.concat(parts, 1)), [1, 3]))

    lowered = lower(module_of(body), TARGET).module
    assert any(name.startswith("concat") for name in functions(lowered))
    left = functions(plan_memory(lowered, TARGET))
    assert len(left) == 3 and not any(name.startswith("concat") for name in left)


def test_views_are_not_scheduled() -> None:
    def body(emit: Callable[[Any], Any], image: Any) -> Any:
        pooled = emit(relax.op.nn.max_pool2d(image, [1, 3]))
        return emit(relax.op.nn.max_pool2d(emit(relax.op.reshape(pooled, (1, 12, 1, 14))), [1, 3]))

    kernels = lower(module_of(body), TARGET).kernels
    assert [kernel.name for kernel in kernels] == ["max_pool2d", "max_pool2d1"]


def test_functions_that_have_a_symbol_are_for_others_to_call() -> None:
    data = te.placeholder(SHAPE, "float32")
    twice = te.create_prim_func([data, te.compute(SHAPE, lambda *place: data(*place) * 2.0)])
    module = module_of(lambda emit, image: emit(relax.op.nn.relu(image)))
    module["exposed"] = twice.with_attr("global_symbol", "exposed")
    module["own"] = twice.without_attr("global_symbol")
    assert functions(drop_uncalled(module)) == {"exposed"}


def test_functions_of_functions_stay() -> None:
    module = module_of(lambda emit, image: emit(relax.op.nn.relu(image)))
    inner = tirx.PrimFunc([], tirx.Evaluate(tirx.const(0, "int32")))
    module["inner"] = inner
    call = tvm.ir.Call(module.get_global_var("inner"), [], None, [], ret_ty=inner.ret_type)
    module["outer"] = tirx.PrimFunc([], tirx.Evaluate(call)).with_attr("global_symbol", "outer")
    assert functions(drop_uncalled(module)) == {"inner", "outer"}
