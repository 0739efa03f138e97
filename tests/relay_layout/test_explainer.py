"""What explain says of small graphs: the choice, its alternatives, transforms and cost."""

import inspect
from dataclasses import replace
from typing import Any

import pytest
from tvm import relax

import relay_layout
from relay_layout.choice.plan import LayoutPlan
from relay_layout.choice.solver import Solution
from relay_layout.errors import InputError
from relay_layout.explainer import explain_plans
from relay_layout.explanation import reader as explaining
from relay_layout.explanation.transforms import transforms_of
from relay_layout.rewrite.rewriter import rewrite
from tests.relay_layout.explanation.explained_modules import (
    conv,
    module_of,
    random_plan,
    relu_between,
    weight,
)

op = relax.op


def test_table_of_a_function() -> None:
    facts = relay_layout.explain(relu_between(), desired_layout="NHWC", threads=2).operators
    found = [(fact.index, fact.name, fact.operator, fact.kind, fact.operands, fact.results) for fact in facts]
    assert found == [
        (0, "first", "nn.conv2d", "chosen", ("NHWC", "HWIO"), ("NHWC",)),
        (1, "middle", "nn.relu", "follows", ("NHWC",), ("NHWC",)),
        (2, "result", "nn.conv2d", "chosen", ("NHWC", "HWIO"), ("NHWC",)),
    ]


def test_text_of_a_function() -> None:
    explanation = relay_layout.explain(
        relu_between(), desired_layout="NHWC", threads=2, shipped_records=False
    )
    first, second, third = (f"{fact.microseconds:.1f}" for fact in explanation.operators)
    each = explanation.transforms[0].microseconds
    assert str(explanation).splitlines() == [
        "   binding  operator   kind     layouts              us",
        f"0  first    nn.conv2d  chosen   NHWC, HWIO -> NHWC  {first}  after data NCHW -> NHWC",
        f"1  middle   nn.relu    follows  NHWC -> NHWC        {second}",
        f"2  result   nn.conv2d  chosen   NHWC, HWIO -> NHWC  {third}",
        f"2 transforms left to run, 10368 bytes, {2 * each:.1f} us",
        f"choice optimal, {explanation.objective_us:.1f} us estimated in all",
    ]


def test_operators_that_no_layout_reaches_are_counted() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return builder.emit(op.nn.relu(builder.emit(op.exp(data))))

    explanation = relay_layout.explain(module_of(emit))
    assert str(explanation).splitlines()[:2] == [
        "2 other operators, which only their own layouts reach",
        "0 transforms left to run",
    ]


def test_text_of_an_operator() -> None:
    explanation = relay_layout.explain(relu_between(), "middle", desired_layout="NHWC", threads=2)
    own = explanation.operator.microseconds
    other = explanation.alternatives[1]
    assert other.more_us is not None and other.more_us > 0
    assert str(explanation).splitlines() == [
        "middle, operator 1: nn.relu, follows",
        "  operand  first   NHWC",
        "  result   middle  NHWC",
        f"  estimated {own:.1f} us",
        "alternatives",
        f"  NHWC -> NHWC  {own:.1f} us  chosen",
        f"  NCHW -> NCHW  {own:.1f} us  +{other.more_us:.1f} us for the whole function, 2 more transforms",
        f"choice optimal, {explanation.objective_us:.1f} us estimated in all",
    ]


def test_transforms_around_an_operator_name_who_shares_them() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        start = builder.emit(op.sort(data, axis=1), "start")
        return builder.emit(
            op.add(conv(builder, start, "left", 16), conv(builder, start, "right", 16)), "both"
        )

    explanation = relay_layout.explain(
        module_of(emit), "left", desired_layout="NCHW16c", threads=2, shipped_records=False
    )
    (transform,) = explanation.transforms
    assert (transform.value, transform.source, transform.target) == ("start", "NCHW", "NCHW16c")
    assert (transform.bytes, transform.readers) == (5184, ("left", "right"))
    assert f"  start  NCHW -> NCHW16c  5184 bytes, {transform.microseconds:.1f} us, shared with right" in str(
        explanation
    )


@pytest.mark.parametrize("node", ["middle", "midd", "1", 1])
def test_a_node_by_name_part_or_index(node: str | int) -> None:
    assert relay_layout.explain(relu_between(), node, threads=2).operator.name == "middle"


@pytest.mark.parametrize(
    ("node", "message"),
    [
        ("midle", "there is no operator 'midle'; did you mean middle?"),
        ("zzz", "there is no operator 'zzz'; did you mean first, middle, result?"),
        ("", "there is no operator ''; did you mean first, middle, result?"),
        (
            "s",
            "'s' fits 2 operators: first (index 0), result (index 2); give a whole name or an index",
        ),
        ("3", "there is no operator 3; indices are 0 to 2"),
        (-1, "there is no operator -1; indices are 0 to 2"),
        ("--1", "there is no operator '--1'; did you mean first, middle, result?"),
        ("9" * 30, f"there is no operator {'9' * 30}; indices are 0 to 2"),
    ],
)
def test_a_node_that_there_is_not(node: str | int, message: str) -> None:
    with pytest.raises(InputError) as raised:
        relay_layout.explain(relu_between(), node)
    assert str(raised.value) == message


def test_without_time_alternatives_are_not_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "SECONDS_FOR_ALTERNATIVES", 0.0)
    explanation = relay_layout.explain(relu_between(), "middle", desired_layout="NHWC")
    assert [each.more_us for each in explanation.alternatives] == [0.0, None]
    assert "not worked out: there was no time left" in str(explanation)


@pytest.mark.parametrize("status", ["time limit", "heuristic"])
def test_what_is_not_proven_is_no_price(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def unproven(plan: LayoutPlan, *_: Any) -> Solution:
        return replace(plan.solution, status=status)

    monkeypatch.setattr(LayoutPlan, "best_of", unproven)
    explanation = relay_layout.explain(relu_between(), "middle", desired_layout="NHWC")
    assert [each.more_us for each in explanation.alternatives] == [0.0, None]


def test_all_plans_are_as_known_as_the_least_known() -> None:
    plans = [random_plan(0), random_plan(1)]
    stopped = replace(plans[1], solution=replace(plans[1].solution, status="time limit"))
    assert explain_plans([plans[0], stopped]).solver_status == "time limit"


@pytest.mark.parametrize("seed", range(12))
def test_transforms_and_cost_are_those_of_the_converted_function(seed: int) -> None:
    plan = random_plan(seed)
    done = rewrite(plan.graph, plan.solution, dict(plan.outputs)).transforms
    found = transforms_of(plan, plan.solution.signatures)
    assert len(found) == done.activations + done.weights
    explanation = explain_plans([plan])
    assert len(explanation.transforms) == len(found)
    prices = [plan.price(*move) for move in done.moves]
    estimate = plan.microseconds(plan.solution.signatures, prices)
    assert explanation.objective_us == pytest.approx(estimate, abs=0.01)


def test_arguments_are_those_of_convert() -> None:
    ours = inspect.signature(relay_layout.explain).parameters.values()
    theirs = inspect.signature(relay_layout.convert).parameters.values()
    assert [one.replace(annotation=None) for one in ours if one.name != "node"] == [
        one.replace(annotation=None) for one in theirs
    ]


def test_declared_orders_need_no_transform() -> None:
    plain = relay_layout.explain(relu_between(), desired_layout="NHWC", threads=2)
    name = relu_between()["main"].params[0].name
    declared = relay_layout.explain(
        relu_between(), desired_layout="NHWC", threads=2, input_dim_orders={name: (0, 2, 3, 1)}
    )
    assert len(declared.transforms) == len(plain.transforms) - 1


def test_blocked_convolutions_are_as_conversion_takes_them_apart() -> None:
    data = relax.Var("data", relax.TensorType((1, 2, 8, 8, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        call = op.nn.conv2d(data, weight(2, 2, 3, 3, 8, 8), data_layout="NCHW8c", kernel_layout="OIHW8i8o")
        builder.emit_func_output(builder.emit(call))
    module = builder.finalize()
    explanation = relay_layout.explain(module, desired_layout="NHWC", threads=2)
    (fact,) = (each for each in explanation.operators if each.operator == "nn.conv2d")
    converted = relay_layout.convert(module, desired_layout="NHWC", threads=2).report
    assert converted["layouts"] == {fact.name: "NHWC->NHWC"}
    assert (fact.operands, fact.results) == (("NHWC", "HWIO"), ("NHWC",))
    assert len(explanation.transforms) == converted["layout_transforms"]
