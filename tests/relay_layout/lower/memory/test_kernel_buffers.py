"""Memory that several kernels of one function share on a GPU."""

import tvm
from tvm import relax, tirx

from relay_layout.ir import bindings_of, calls_global, operator_name
from relay_layout.lower.memory.operators import TENSOR
from relay_layout.lower.passes import memory_passes
from relay_layout.lower.stages import lower
from relay_layout.targets import BuildTarget, resolve_target
from tests.relax_modules import main_of


def planned(target: BuildTarget) -> tvm.IRModule:
    """The largest three of each row, twice: each sorts rows from one buffer to another and back."""
    data = relax.Var("data", relax.TensorType((4, 40), "float32"))
    with main_of(data) as builder:
        first = builder.emit(relax.op.topk(data, 30, ret_type="values"))
        builder.result = relax.op.topk(first, 3, ret_type="values")
    with target.tvm_target:
        lowered = lower(builder.finalize(), target).module
        return tvm.transform.Sequential(memory_passes(target))(lowered)


def shared_buffers(module: tvm.IRModule) -> list[str]:
    """Of all functions, what their kernels share and no caller passes."""
    functions = [each for _, each in module.functions_items() if isinstance(each, tirx.PrimFunc)]
    return [
        str(buffer.name)
        for function in functions
        for buffer in function.body.block.alloc_buffers
        if str(buffer.scope()) == "global"
    ]


def test_a_gpus_functions_are_given_what_their_kernels_share() -> None:
    module = planned(resolve_target("cuda-sm_80"))
    assert shared_buffers(module) == []
    bindings = bindings_of(module["main"])
    tensors = {each.var: each.value for each in bindings if operator_name(each.value) == TENSOR}
    calls = [each.value for each in bindings if calls_global(each.value)]
    assert [len(call.args) for call in calls] == [4, 4]
    for call in calls:
        storages = [tensors[argument].args[0] for argument in call.args[1:]]
        assert len(set(storages)) == len(storages)
        shapes = [list(map(int, parameter.shape)) for parameter in module[call.op].params]
        assert [list(map(int, argument.ty.shape.values)) for argument in call.args] == shapes
    # The second call's lie where the first one's did.
    assert len({tensor.args[0] for tensor in tensors.values()}) < len(tensors)
