"""Padding for alignment that is wrong: other numbers than zeros, too few of them, or in another place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.choice.plan import plan_layout
from relay_layout.errors import VerificationError
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.border import with_border_layouts
from relay_layout.rewrite.rewriter import rewrite
from relay_layout.targets import OperatorView, Requirement, resolve_target
from relay_layout.verify import verify
from tests.relax_modules import main_of
from tests.relay_layout.verify.mutation import Mutant, mutants, rebuilt

op = relax.op
KINDS = ("filled", "pad widths", "slice argument", "permute_dims", "transform dropped")


class Accelerator:
    name = "accelerator"

    def requirements(self, operator: OperatorView) -> Sequence[Requirement] | None:
        """Convolutions with channels in multiples of 16."""
        if operator.operator != "nn.conv2d":
            return None
        return [Requirement(["NHWC[a=16]", "O[a=16]HWI[a=16]"], ["NHWC[a=16]"])]


def shuffled_network() -> tvm.IRModule:
    """A channel shuffle between two convolutions."""

    def constant(*shape: int) -> Any:
        return relax.const(np.random.default_rng(0).standard_normal(shape).astype("float32"))

    image = relax.Var("image", relax.TensorType((2, 3, 5, 7), "float32"))
    with main_of(image) as builder:
        first = builder.emit(op.nn.relu(builder.emit(op.nn.conv2d(image, constant(12, 3, 1, 1)))))
        split = builder.emit(op.reshape(first, (2, 3, 4, 5, 7)))
        turned = builder.emit(op.permute_dims(split, [0, 2, 1, 3, 4]))
        joined = builder.emit(op.reshape(turned, (2, 12, 5, 7)))
        builder.result = op.nn.conv2d(joined, constant(6, 12, 1, 1))
    return builder.finalize()


def test_what_is_wrong_with_padding_is_refused() -> None:
    request = LayoutRequest(backend=Accelerator())
    module = with_border_layouts(shuffled_network(), request)
    plan = plan_layout(module, request, resolve_target("native", threads=2))
    rewritten = rewrite(plan.graph, plan.solution, dict(plan.outputs))

    def passes(mutant: Mutant) -> bool:
        try:
            verify("main", plan.graph, mutant.function, plan.outputs, rewritten.placements)
        except VerificationError:
            return False
        return True

    tried = list(mutants(rewritten.function, KINDS))
    assert {mutant.kind.partition(" ")[0] for mutant in tried} >= {"filled", "pad", "slice", "permute_dims"}
    assert not [(mutant.binding, mutant.kind) for mutant in tried if passes(mutant)]


@pytest.mark.parametrize("rows", [3, 5])
def test_a_constant_with_numbers_behind_it_is_refused(rows: int) -> None:
    request = LayoutRequest(backend=Accelerator())
    module = with_border_layouts(shuffled_network(), request)
    plan = plan_layout(module, request, resolve_target("native", threads=2))
    function = rewrite(plan.graph, plan.solution, dict(plan.outputs)).function

    def filled(constant: Any) -> Any:
        array = constant.value.numpy().copy()
        array[-1, ..., rows] = 1.0
        return relax.const(array)

    bindings = [binding for block in function.body.blocks for binding in block.bindings]
    place = next(
        place
        for place, binding in enumerate(bindings)
        if isinstance(binding.value, relax.Call) and str(binding.value.op.name) == "relax.nn.conv2d"
    )
    call = bindings[place].value
    changed = rebuilt(
        function, {place: relax.Call(call.op, [call.args[0], filled(call.args[1])], call.attrs, call.ty_args)}
    )
    assert changed is not None
    with pytest.raises(VerificationError, match=r"does not hold the original constant|is not the original"):
        verify("main", plan.graph, changed, plan.outputs)
