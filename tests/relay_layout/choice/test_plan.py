"""What a plan says of the whole function: estimates are microseconds, whatever decided."""

import pytest
import tvm
from tvm import relax

from relay_layout.choice.objective import FEWEST_FIRST_US
from relay_layout.choice.plan import plan_layout
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite.canonicalize import canonicalize
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of

REQUESTS = {
    "auto": LayoutRequest.parse("auto", None, None, ()),
    "named": LayoutRequest.parse("NCHW", None, None, ()),
}


def convolution_and_transpose(size: int) -> tvm.IRModule:
    data = relax.Var("x", relax.TensorType((1, 512, size, size), "float32"))
    weight = relax.Var("w", relax.TensorType((512, 512, 3, 3), "float32"))
    with main_of(data, weight) as builder:
        out = builder.emit(relax.op.nn.conv2d(data, weight, padding=1))
        builder.result = relax.op.permute_dims(out, (0, 2, 3, 1))
    return canonicalize(builder.finalize())


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_a_second_and_more_is_estimated_as_such(request_):
    target = resolve_target("x86-64-v3", threads=1)

    def estimated(size: int) -> float:
        plan = plan_layout(convolution_and_transpose(size), request_, target)
        return plan.microseconds(plan.solution.signatures, [])

    small, large = estimated(64), estimated(1024)
    assert 0 < small < FEWEST_FIRST_US < large
    assert large / small == pytest.approx(256, rel=0.2)


def test_a_transpose_that_is_held_counts_as_one_that_is_inserted():
    target = resolve_target("x86-64-v3", threads=1)
    plan = plan_layout(convolution_and_transpose(64), REQUESTS["named"], target)
    assert FEWEST_FIRST_US <= plan.solution.objective < 2 * FEWEST_FIRST_US
