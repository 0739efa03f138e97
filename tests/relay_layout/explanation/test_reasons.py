"""Each kind of reason why an operator does not run in a layout."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax, tirx

import relay_layout
from relay_layout.choice import objective
from relay_layout.choice.plan import plan_layout
from relay_layout.explanation.readable import Letters
from relay_layout.explanation.reasons import candidates_around, not_converted
from relay_layout.explanation.refusals import refusal
from relay_layout.layout_request import LayoutRequest
from relay_layout.ops import Wanted
from relay_layout.ops.axis_rule import AxisRule
from relay_layout.ops.convolution_rule import ConvolutionRule
from relay_layout.relay import callbacks
from relay_layout.targets.backend import OperatorView, Requirement
from tests.relay_layout.explanation.explained_modules import (
    TARGET,
    between,
    conv,
    module_of,
    planned,
    random_plan,
    relu_between,
    weight,
)

op = relax.op


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    callbacks.reset("nn.conv2d")
    callbacks.reset("nn.relu")


REFUSED: dict[str, tuple[Callable[[relax.Expr], relax.Expr], str]] = {
    "a reduced axis": (
        lambda data: op.nn.softmax(data, axis=1),
        "a block must not cut C, which nn.softmax needs as one run",
    ),
    "no row": (
        lambda data: op.nonzero(data),
        "there is no row for nonzero: its result lists elements in the order of the original layout",
    ),
    "uneven parts": (
        lambda data: op.split(data, [4], axis=1),
        "a block of 16 does not divide C of 'middle.0', 4",
    ),
    "torn groups": (
        lambda data: op.reshape(data, (1, 16, 81)),
        "it merges or splits H and W, which must stay neighbours in that order",
    ),
    "a block across a reshape": (
        lambda data: op.reshape(data, (1, 2, 8, 9, 9)),
        "a block of 16 does not divide D of 'middle', 8",
    ),
    "a lowering that has no such layout": (
        lambda data: op.image.resize2d(data, (9, 9), layout="NCHW"),
        "the operator's row takes a layout only where TVM resizes in this layout: channels first, last, or "
        "blocked",
    ),
}
"""What follows a convolution, and why it keeps its layout where the convolution does not."""

LAYOUT = {"torn groups": "NHCW", "a lowering that has no such layout": "HWNC"}
"""What the convolution of a case runs in, NCHW16c in the others."""


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_row_refuses(case: str) -> None:
    middle, reason = REFUSED[case]

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        found = builder.emit(middle(conv(builder, data, "first", 16)), "middle")
        return (
            builder.emit(op.nn.relu(builder.emit(relax.TupleGetItem(found, 0)))) if is_tuple(found) else found
        )

    assert not_converted(planned(module_of(emit), LAYOUT.get(case, "NCHW16c"))) == {"middle": reason}


def test_convolutions_without_the_blocks_that_were_named_are_told_with_those_that_are_not_converted() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, conv(builder, data, "first", 16), "second", 24)

    assert not_converted(planned(module_of(emit), "NCHW16c")) == {}
    assert not_converted(planned(module_of(emit), "NCHW7c")) == {
        "first": "not all in NCHW7c: a block of 7 does not divide C of 'data', 16",
        "second": "not all in NCHW7c: a block of 7 does not divide C of 'first', 16",
    }


def test_padding_that_a_kernel_lacks_is_told() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, "middle", 18)

    assert not_converted(planned(module_of(emit), "NHWC[a=9]")) == {
        "middle": "not all in NHWC[a=9]: C of the data would be 18, but I of the kernel 16"
    }


def is_tuple(value: relax.Expr) -> bool:
    return isinstance(value.ty, relax.TupleType)


def test_an_obstacle_of_a_node_names_layout_and_tensor() -> None:
    explanation = relay_layout.explain(
        between(lambda data: op.nn.softmax(data, axis=1)), "middle", desired_layout="NCHW16c"
    )
    reason = "a block must not cut C, which nn.softmax needs as one run"
    assert explanation.operator.kind == "keeps its own"
    assert explanation.operator.reason == reason
    lines = str(explanation).splitlines()
    assert f"  reason: {reason}" in lines
    assert lines[lines.index("layouts it cannot have") + 1 :][:2] == [
        f"  NCHW16c for first: {reason}",
        f"  NCHW16c for middle: {reason}",
    ]


def test_what_costs_more_says_by_how_much() -> None:
    # The convolution's result is returned in NCHW too, so that relu can share that transform.
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        first = conv(builder, data, "first", 16)
        return relax.Tuple([first, builder.emit(op.nn.relu(first), "kept")])

    explanation = relay_layout.explain(module_of(emit), "kept", desired_layout="NHWC", threads=2)
    other = explanation.alternatives[1]
    assert other.more_us is not None and other.more_us > 0
    assert explanation.operator.reason == (
        "no layout around it would cost less than its own; the next best way: "
        f"+{other.more_us:.1f} us for the whole function, 1 more transform"
    )


def test_what_would_save_less_than_transforms_count_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "TRANSFORM_MARGIN", 1e6)

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, "only", 64)

    explanation = relay_layout.explain(module_of(emit, (1, 64, 56, 56)), "result", target="x86-64-v3")
    other = explanation.alternatives[1]
    assert other.more_us is not None and other.more_us < 0
    assert explanation.operator.reason == (
        "others would save less than their transforms take, which is no certain gain; the next best way: "
        f"{other.more_us:.1f} us for the whole function, 2 more transforms"
    )


def test_unknown_rank() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        flat = builder.match_cast(
            conv(builder, data, "first", 16), relax.TensorType(None, "float32", ndim=-1)
        )
        return builder.emit(op.nn.relu(flat), "middle")

    plan = planned(module_of(emit), "NHWC")
    (relu,) = [node for node in plan.graph.nodes if node.operator == "nn.relu"]
    rule, names = plan.rules(relu), Letters(plan.graph)
    assert rule is not None
    layout = relay_layout.Layout.parse("ACDB")
    assert refusal(rule, relu, 0, layout, names) == f"the rank of '{relu.operands[0].name}' is unknown"


def test_symbolic_channels() -> None:
    channels = tirx.Var("c", "int64")

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return builder.emit(op.nn.conv2d(data, data, data_layout="NCHW"), "odd")

    kind = relax.TensorType((1, channels, 3, 3), "float32")
    (fact,) = relay_layout.explain(module_of(emit, kind)).operators
    assert (fact.kind, fact.reason) == ("keeps its own", "C of 'data' is symbolic (c)")


def test_a_layout_that_does_not_fit_the_channels_is_named() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, "first", 58)

    (fact,) = relay_layout.explain(module_of(emit), desired_layout="NCHW16c").operators
    assert fact.reason == "not all in NCHW16c: a block of 16 does not divide C of 'result', 58"


def test_a_kernel_layout_that_does_not_fit_the_groups() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, "first", 16, groups=4)

    desired = {"nn.conv2d": ["NCHW16c", "OIHW16i16o"]}
    (fact,) = relay_layout.explain(module_of(emit), desired_layouts=desired).operators
    assert fact.reason == "OIHW16i16o: a block of 16 does not divide I of 'constant', 4 (4 groups)"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"desired_layout": "NHWC", "skip_layers": [0]}, "skip_layers leaves it out"),
        ({"desired_layout": "auto", "skip_layers": [0]}, "skip_layers leaves it out"),
        ({"desired_layout": "none"}, "no conversion was asked for"),
        (
            {"desired_layouts": {"nn.max_pool2d": ["NHWC"]}},
            "the desired layouts have no entry for nn.conv2d",
        ),
        (
            {"desired_layout": "NHWC8c"},
            "there is no convolution kernel for data in NHWC8c",
        ),
    ],
)
def test_what_the_request_leaves_out(options: dict[str, Any], reason: str) -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return conv(builder, data, "first", 16)

    assert relay_layout.explain(module_of(emit), "result", **options).operator.reason == reason


@pytest.mark.parametrize("layout", ["auto", "NHWC"])
def test_convolutions_that_are_skipped_are_in_the_table(layout: str) -> None:
    facts = relay_layout.explain(relu_between(), desired_layout=layout, skip_layers=[0, 1]).operators
    assert [(fact.name, fact.kind, fact.reason) for fact in facts] == [
        ("first", "keeps its own", "skip_layers leaves it out"),
        ("result", "keeps its own", "skip_layers leaves it out"),
    ]


def test_what_a_skipped_convolution_cannot_have() -> None:
    explanation = relay_layout.explain(relu_between(), "first", desired_layout="NHWC", skip_layers=[0])
    lines = str(explanation).splitlines()
    assert lines[lines.index("layouts it cannot have") + 1] == "  NHWC for first: skip_layers leaves it out"


@pytest.mark.parametrize("returned", ["None", "the call as it was"])
def test_what_a_callback_left_alone(returned: str) -> None:
    from relay_layout.relay import nn

    def convert(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> Any:
        return None if returned == "None" else nn.conv2d(*inputs, **dict(attrs))

    callbacks.register_convert_op_layout("nn.conv2d", convert)
    desired = {"nn.conv2d": ["NHWC", "default"]}
    fact = relay_layout.explain(relu_between(), "first", desired_layouts=desired).operator
    assert fact.reason == f"the convert layout callback for nn.conv2d returned {returned}"


def test_what_an_infer_callback_does_not_take() -> None:
    @callbacks.register_infer_correct_layout("nn.relu", level=11)
    def infer(attrs: Any, new_in: Any, old_in: Any, types: Any) -> callbacks.InferCorrectLayoutOutput:
        return callbacks.InferCorrectLayoutOutput(old_in, old_in, attrs)

    explanation = relay_layout.explain(relu_between(), "middle", desired_layout="NHWC")
    assert explanation.operator.reason == "the infer layout callback for nn.relu does not take it"


class Picky:
    """A backend that only runs relu as the module has it."""

    name = "picky"

    def requirements(self, operator: OperatorView) -> list[Requirement] | None:
        return [] if operator.operator == "nn.relu" else None


def test_what_a_backend_does_not_run() -> None:
    request = replace(LayoutRequest.parse("NHWC"), backend=Picky())
    plan = plan_layout(relax.transform.Normalize()(relu_between()), request, TARGET)
    assert not_converted(plan) == {"middle": "backend picky does not run nn.relu in it"}


def test_convert_and_explain_ask_a_backend() -> None:
    module = relax.transform.Normalize()(relu_between())
    report = relay_layout.convert(module, desired_layout="NHWC", backend=Picky()).report
    assert report["not_converted"] == {"middle": "backend picky does not run nn.relu in it"}
    middle = relay_layout.explain(module, "middle", desired_layout="NHWC", backend=Picky())
    assert "backend picky does not run nn.relu in it" in str(middle)


def test_convert_names_what_was_not_converted() -> None:
    module = between(lambda data: op.nn.softmax(data, axis=1))
    report = relay_layout.convert(module, desired_layout="NCHW16c").report
    assert report["not_converted"] == {"middle": "a block must not cut C, which nn.softmax needs as one run"}


def test_nothing_is_named_where_nothing_is_converted() -> None:
    assert relay_layout.convert(relu_between(), desired_layout="none").report["not_converted"] == {}


@pytest.mark.parametrize("seed", range(24))
def test_a_reason_is_given_just_where_a_row_gives_no_signature(seed: int) -> None:
    plan = random_plan(seed)
    names = Letters(plan.graph)
    for node in plan.graph.nodes:
        rule = plan.rules(node)
        if rule is None or isinstance(rule, ConvolutionRule):
            continue
        count = len(node.operands)
        for place, wanted in candidates_around(plan, node):
            around = [(wanted,) if at == place else () for at in range(count + len(node.results))]
            signatures = rule.signatures(
                node, Wanted(tuple(around[:count]), tuple(around[count:])), plan.offers
            )
            offered = any([*each.operands, *each.results][place] == wanted for each in signatures)
            reason = refusal(rule, node, place, wanted, names)
            # Other rules than the rows of axes are asked only where they gave nothing.
            if not offered or isinstance(rule, AxisRule):
                assert bool(reason) != offered, f"seed {seed}, {node.name}, {wanted} at {place}: {reason}"


def test_tensors_that_lie_in_blocks_already_are_called_so() -> None:
    """In a module that was converted before: its blocks are dimensions, and no volumes."""

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> Any:
        layouts = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o", "out_layout": "NCHW8c"}
        weights = weight(2, 2, 1, 1, 8, 8)
        return builder.emit(op.nn.conv2d(data, weights, **layouts))

    found = relay_layout.explain(module_of(emit, (1, 2, 5, 5, 8)))
    named = [fact.operands + fact.results for fact in found.operators]
    assert named == [("NCHW8c", "OIHW8i8o", "NCHW8c")]
