"""Views of views, and broadcasts that keep out of the kernel of a smaller tensor."""

import numpy as np
import tvm
from tvm import relax

from relay_layout.ir import operator_name
from relay_layout.lower.fusion.broadcasts import prevent_fusion_of_broadcasts
from relay_layout.lower.fusion.patterns import PATTERN
from relay_layout.lower.legalize.views import merge_views


def operators(module: tvm.IRModule) -> list[tuple[str, str]]:
    """Of each binding the operator, and the name of what it reads first."""
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    return [
        (operator_name(binding.value), binding.value.args[0].name)
        for binding in bindings
        if isinstance(binding.value, relax.Call)
    ]


def test_a_view_of_a_view_is_one_of_the_tensor() -> None:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3, 4), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            first = builder.emit(relax.op.reshape(data, (6, 4)), "first")
            second = builder.emit(relax.op.expand_dims(first, 0), "second")
            third = builder.emit(relax.op.squeeze(second, [0]), "third")
            result = builder.emit_output(relax.Tuple([relax.op.nn.relu(third), first]))
        builder.emit_func_output(result)
    module = relax.transform.Normalize()(builder.finalize())
    merged = merge_views(module)
    assert [name for name in operators(merged) if name[0] != "nn.relu"] == [("reshape", "data")] * 3
    assert [str(binding.var.ty) for binding in merged["main"].body.blocks[0].bindings] == [
        str(binding.var.ty) for binding in module["main"].body.blocks[0].bindings
    ]


def test_views_of_extents_that_are_not_known_stay() -> None:
    builder = relax.BlockBuilder()
    batch = tvm.tirx.Var("n", "int64")
    data = relax.Var("data", relax.TensorType((batch, 3, 4), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            first = builder.emit(relax.op.reshape(data, (batch, 12)), "first")
            result = builder.emit_output(relax.op.reshape(first, (batch, 2, 6)))
        builder.emit_func_output(result)
    assert operators(merge_views(builder.finalize())) == [("reshape", "data"), ("reshape", "first")]


def test_a_view_reads_nothing_that_another_block_keeps() -> None:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3, 4), "float32"))
    with builder.function("main", [data]):
        with builder.dataflow():
            kept = builder.emit(relax.op.nn.relu(data), "kept")
            given = builder.emit_output(relax.op.reshape(kept, (6, 4)), "given")
        builder.emit_func_output(builder.emit(relax.op.reshape(given, (4, 6))))
    merged = relax.transform.Normalize()(merge_views(builder.finalize()))
    assert operators(merged) == [("nn.relu", "data"), ("reshape", "kept"), ("reshape", "given")]


def patterns(gate: bool) -> dict[str, int]:
    """Of the functions of a convolution whose sigmoid, of one pixel or of all, multiplies an image."""
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((1, 4, 5, 6), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            mean = builder.emit(relax.op.mean(image, [2, 3], keepdims=True)) if gate else image
            weight = relax.const(np.ones((4, 4, 1, 1), "float32"))
            found = builder.emit(relax.op.sigmoid(relax.op.nn.conv2d(mean, weight)))
            biased = builder.emit(relax.op.add(found, relax.const(np.ones((1, 4, 1, 1), "float32"))))
            result = builder.emit_output(relax.op.multiply(image, biased))
        builder.emit_func_output(result)
    module = relax.transform.LegalizeOps()(relax.transform.Normalize()(builder.finalize()))
    module = prevent_fusion_of_broadcasts(relax.transform.AnnotateTIROpPattern()(module))
    return {
        str(variable.name_hint): int(function.attrs[PATTERN])
        for variable, function in module.functions_items()
        if isinstance(function, tvm.tirx.PrimFunc)
    }


def test_only_what_grows_a_products_result_is_kept_apart() -> None:
    gated, whole = patterns(gate=True), patterns(gate=False)
    assert (gated.pop("multiply"), whole.pop("multiply")) == (2, 0)
    gated.pop("mean")
    assert gated == whole
    assert gated["add"] in (0, 1)
