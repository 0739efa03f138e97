"""What grows the result of a convolution stays out of its kernel; the same function elsewhere does not."""

from tvm import IRModule, relax

from relay_layout.lower.fusion.broadcasts import prevent_fusion_of_broadcasts
from relay_layout.lower.fusion.patterns import BROADCAST, INJECTIVE, PATTERN

FLOAT = "float32"


def gated() -> IRModule:
    """A convolution scaled by channel, and one of a pixel for each channel that multiplies an image."""
    image = relax.Var("image", relax.TensorType((1, 16, 8, 8), FLOAT))
    weight = relax.Var("weight", relax.TensorType((16, 16, 1, 1), FLOAT))
    scale = relax.Var("scale", relax.TensorType((1, 16, 1, 1), FLOAT))
    builder = relax.BlockBuilder()
    with builder.function("main", [image, weight, scale]):
        with builder.dataflow():
            scaled = builder.emit(
                relax.op.multiply(builder.emit(relax.op.nn.conv2d(image, weight)), scale), "scaled"
            )
            means = builder.emit(relax.op.mean(scaled, [2, 3], keepdims=True))
            gate = builder.emit(relax.op.nn.conv2d(means, weight))
            result = builder.emit_output(relax.op.multiply(scaled, gate), "result")
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps()(builder.finalize())
    return relax.transform.AnnotateTIROpPattern()(module)


def patterns(module: IRModule) -> dict[str, int]:
    """Of what is called for each variable of "main"."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    return {each.var.name: int(module[each.value.args[0]].attrs[PATTERN]) for each in bindings}


def test_a_function_that_others_call_too_is_marked_for_what_grows_alone() -> None:
    before = gated()
    functions = [binding.value.args[0] for binding in before["main"].body.blocks[0].bindings]
    assert functions[1].same_as(functions[-1])
    found = patterns(prevent_fusion_of_broadcasts(before))
    assert found["result"] == INJECTIVE
    assert found["scaled"] <= BROADCAST


def test_a_function_of_its_own_is_no_copy() -> None:
    before = gated()
    once = prevent_fusion_of_broadcasts(before)
    assert len(once.functions) == len(before.functions) + 1
    assert len(prevent_fusion_of_broadcasts(once).functions) == len(once.functions)
