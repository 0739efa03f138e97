"""What runs as often as the data say, in reports, explanations and profiles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx.numpy_helper
import onnx.parser
import pytest

import relay_layout
from relay_layout.cli.profile_report import format_profile, profile_of
from relay_layout.errors import InputError
from relay_layout.explanation.explanation import Explanation, NodeExplanation
from relay_layout.report.files import read_report
from relay_layout.report.schema import Report
from relay_layout.report.text import find
from relay_layout.report.times import add_times, times_of
from relay_layout.runtime.profiling import Profile

TEXT = """<ir_version: 9, opset_import: ["" : 18]> nested
(float[1,4,5,6] x, int64 n) => (float[A,B,C,D] y) <float[4,4,1,1] k> {
    y = Loop <body = outer (int64 i, bool c, float[1,4,5,6] a) => (bool d, float[1,4,5,6] e) {
        d = Identity(c)  f = Conv(a, k)
        e = Loop <body = inner (int64 j, bool p, float[1,4,5,6] b) => (bool q, float[1,4,5,6] g) {
            q = Identity(p)  g = Tanh(b) }> (n, , f) }> (n, , x) }"""
"""A loop in a loop, both of ``n`` trips."""


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    model = onnx.parser.parse_model(TEXT)
    kernel = np.random.default_rng(1).standard_normal((4, 4, 1, 1)).astype("float32")
    model.graph.initializer.append(onnx.numpy_helper.from_array(kernel, "k"))
    return model


@pytest.fixture(scope="module")
def compiled(model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bodies")
    relay_layout.compile(model, report=folder / "report.json").save(folder / "model.rla")
    return folder


@pytest.fixture
def report(compiled: Path) -> Report:
    return read_report(compiled / "report.json")


def test_an_operator_of_a_body_is_explained_by_its_name(model: onnx.ModelProto) -> None:
    found = relay_layout.explain(model, "y_loop.f")
    assert isinstance(found, NodeExplanation)
    assert (found.operator.operator, found.operand_names[0]) == ("nn.conv2d", "y_loop.state_0")


def test_operators_are_counted_through_all_bodies(model: onnx.ModelProto) -> None:
    found = relay_layout.explain(model)
    assert isinstance(found, Explanation)
    (convolution,) = (each for each in found.operators if each.operator == "nn.conv2d")
    again = relay_layout.explain(model, convolution.index)
    assert isinstance(again, NodeExplanation)
    assert (again.operator.index, again.operator.name) == (convolution.index, convolution.name)


def test_a_report_has_the_kernels_of_bodies(report: Report) -> None:
    (target,) = report["targets"]
    call = find(target, "y_loop.f")["call"]
    assert call is not None
    assert target["calls"][call]["operator"] == "conv2d"
    assert target["calls"][call]["runs"] is None


def test_edges_lead_from_what_runs_a_body_to_its_inputs(report: Report) -> None:
    (target,) = report["targets"]
    names = [node["name"] for node in target["nodes"]]
    read = {(names[edge["source"]], names[edge["target"]]) for edge in target["edges"]}
    inner = find(target, "y_loop.e_loop")["name"]
    assert {("y_loop", "y_loop.state_0"), (inner, "e_loop.state_0")} <= read


def test_a_profile_counts_trips(compiled: Path, report: Report) -> None:
    session = relay_layout.load(compiled / "model.rla", threads=1)
    given = {"x": np.ones((1, 4, 5, 6), "float32"), "n": np.array(3)}
    found = profile_of(session, given, 2, report)
    target = report["targets"][0]
    places = [find(target, name)["call"] for name in ("y_loop.f", "e_loop.g")]
    assert [found["calls"][place]["runs"] for place in places if place is not None] == [3, 9]
    assert [target["calls"][place]["runs"] for place in places if place is not None] == [3, 9]
    assert "runs" in format_profile(found).splitlines()[0]


MEASURED = Profile((("a", 1.0),), 1.0, 1, 1, "cpu", 1.0, (("b", 2.0), ("b", 3.0), ("b", 4.0), ("b", 5.0)))


def test_calls_of_one_function_take_turns_in_each_trip() -> None:
    assert times_of(["a", "b", "b"], MEASURED) == [(1.0, 1), (6.0, 2), (8.0, 2)]


def test_a_branch_that_is_not_taken_takes_no_time() -> None:
    assert times_of(["a", "b", "c"], MEASURED) == [(1.0, 1), (14.0, 4), (0.0, 0)]


@pytest.mark.parametrize("functions", [["a", "c"], ["b", "a"], []])
def test_times_of_other_functions(functions: list[str]) -> None:
    assert times_of(functions, MEASURED) is None


def test_times_of_another_network_are_refused(report: Report) -> None:
    with pytest.raises(InputError, match="the report is of another compilation"):
        add_times(report, report["targets"][0]["name"], replace(MEASURED, calls=()))
