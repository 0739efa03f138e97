"""What a network that is one CUDA graph returns."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.errors import TargetError
from relay_layout.ir import Expression
from relay_layout.lower.cuda_graph import capture, check_extents
from relay_layout.lower.passes import fuse_passes, legalize_passes, machine_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.lower.stages import plan_memory
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of, module_giving
from topi_ext.compute.ranking import top_of_rows

Outputs = Callable[[Expression, Expression, Expression], Expression]
"""From the input, an intermediate result and the last one."""

OUTPUTS: dict[str, Outputs] = {
    "one": lambda image, middle, last: last,
    "a tuple of one": lambda image, middle, last: relax.Tuple([last]),
    "two": lambda image, middle, last: relax.Tuple([middle, last]),
    "twice": lambda image, middle, last: relax.Tuple([last, middle, last]),
    "nested": lambda image, middle, last: relax.Tuple([relax.Tuple([middle, last]), last]),
    "an input": lambda image, middle, last: relax.Tuple([image, last]),
    "a constant": lambda image, middle, last: relax.Tuple([relax.const(np.ones(3, "float32")), last]),
    "a view of an input": lambda image, middle, last: relax.Tuple([relax.op.reshape(image, (24,)), last]),
    "views of one result": lambda image, middle, last: relax.Tuple(
        [relax.op.reshape(last, extents) for extents in ((24,), (2, 12))]
    ),
    "a view of a result": lambda image, middle, last: relax.Tuple([middle, relax.op.reshape(last, (24,))]),
}


def captured(outputs: Outputs) -> tvm.IRModule:
    image = relax.Var("image", relax.TensorType((4, 6), "float32"))
    with main_of(image) as builder:
        middle = builder.emit(relax.op.nn.softmax(image))
        last = builder.emit(relax.op.nn.softmax(middle, axis=0))
        builder.result = builder.normalize(outputs(image, middle, last))
    target = resolve_target("cuda-sm_80", precision="fp32")
    module = builder.finalize()
    with target.tvm_target:
        module = tvm.transform.Sequential([*legalize_passes(target), *fuse_passes(target)])(module)
        module, _ = schedule_functions(module, target)
        return capture(plan_memory(module, target))


@pytest.mark.parametrize("outputs", OUTPUTS.values(), ids=OUTPUTS.keys())
def test_results_outlive_the_graph(outputs: Outputs) -> None:
    module = captured(outputs)
    assert "softmax" not in str(module["main"].body)
    # A result that only the graph binds has no register here.
    lowered = tvm.transform.Sequential(machine_passes())(module)
    relax.vm_build._vmcodegen(relax.ExecBuilder(), lowered, "bytecode")


@pytest.mark.parametrize("name", ["one", "two", "twice", "nested"])
def test_results_are_arguments_of_the_call(name: str) -> None:
    """Not what the first call returned, which the graph would keep."""
    main = captured(OUTPUTS[name])["main"]
    *_, binding = main.body.blocks[-1].bindings

    def tensors(value: Expression) -> list[Expression]:
        if isinstance(value, relax.Tuple):
            return [tensor for field in value.fields for tensor in tensors(field)]
        return [value]

    assert main.body.body.same_as(binding.var)
    assert set(tensors(binding.value)) <= set(main.params[1:])


def test_counts_of_run_time_are_refused() -> None:
    count = relax.Var("count", relax.TensorType((1,), "int64"))
    with main_of(count) as builder:
        found = builder.emit(relax.op.tensor_to_shape(count), name_hint="found")
        symbol = tvm.tirx.Var("n", "int64")
        builder.match_cast(found, relax.ShapeType([symbol]))
        builder.result = relax.op.zeros(relax.ShapeExpr([symbol]), "float32")
    with pytest.raises(TargetError) as error:
        check_extents(builder.finalize(), "cuda-sm_90")
    assert str(error.value) == (
        "target cuda-sm_90: 'found' says at run time how many elements there are, which code for processors "
        "alone can do; compile for a processor, or end the model before it"
    )


def test_loops_for_processors_are_refused() -> None:
    """As front ends write them for what is no operator of Relax."""
    rows = relax.Var("rows", relax.TensorType((4, 8), "float32"))
    with main_of(rows) as builder:
        top = partial(top_of_rows, count=2, largest=True)
        found = builder.emit(builder.call_te(top, rows, primfunc_name_hint="top"))
        builder.result = relax.TupleGetItem(found, 0)
    with pytest.raises(TargetError) as error:
        check_extents(builder.finalize(), "cuda-sm_90")
    assert str(error.value) == (
        "target cuda-sm_90: 'top' has a kernel for processors alone; compile for a processor, or give the "
        "model's inputs fixed shapes (--input-shape)"
    )


def test_tensors_of_more_bytes_than_kernels_count_are_refused() -> None:
    image = relax.Var("image", relax.TensorType((1, 1 << 15, 1 << 14), "float32"))
    with pytest.raises(TargetError) as error:
        check_extents(module_giving(relax.op.nn.relu(image), image), "cuda-sm_90")
    assert str(error.value) == (
        "target cuda-sm_90: 'image' has 2.0 GiB, and kernels count the bytes of a tensor up to 2 GiB; use a "
        "smaller batch or image"
    )
