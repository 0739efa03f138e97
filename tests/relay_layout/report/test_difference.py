"""Two reports compared."""

from copy import deepcopy

import pytest

from relay_layout.errors import InputError
from relay_layout.report.difference import difference, pairs, text_of
from relay_layout.report.schema import Report


def test_a_report_and_itself(report: Report) -> None:
    target = report["targets"][0]
    found = difference(target, target)
    assert not any(
        (
            found["layouts"],
            found["kernels"],
            found["transforms_gone"],
            found["transforms_new"],
            found["operators_gone"],
            found["operators_new"],
        )
    )
    assert text_of(found).endswith("layouts, kernels and transforms are the same")


def test_changed_layouts_and_transforms(report: Report) -> None:
    before, after = report["targets"][0], deepcopy(report["targets"][0])
    after["nodes"][2]["after"] = {"operands": ["NCHW"], "results": ["NCHW"]}
    gone = after["transforms"].pop()
    found = difference(before, after)
    assert found["layouts"] == [
        {
            "name": "active",
            "operator": "nn.relu",
            "before": "NCHW16c -> NCHW16c",
            "after": "NCHW -> NCHW",
        }
    ]
    assert found["transforms_gone"] == [gone]
    assert found["transforms_new"] == []
    assert found["totals"]["transforms"] == [4, 3]
    lines = text_of(found).splitlines()
    assert "layouts: 1" in lines
    assert "  active  nn.relu  NCHW16c -> NCHW16c  ->  NCHW -> NCHW" in lines


def test_changed_kernels(report: Report) -> None:
    before, after = report["targets"][0], deepcopy(report["targets"][0])
    place = before["nodes"][1]["call"]
    assert place is not None
    after["calls"][place].update(source="tuned", estimate_us=2.0)
    before["calls"][place]["estimate_us"] = 5.0
    found = difference(before, after)
    assert [(each["name"], each["before"], each["after"]) for each in found["kernels"]] == [
        ("first", "default direct", "tuned direct")
    ]
    assert (found["kernels"][0]["before_us"], found["kernels"][0]["after_us"]) == (5.0, 2.0)
    assert found["totals"]["tuned_kernels"] == [0, 1]


@pytest.mark.parametrize(("after_us", "is_named"), [(20.9, False), (19.1, False), (21.5, True), (18.5, True)])
def test_measured_times_count_where_they_change_notably(
    report: Report, after_us: float, is_named: bool
) -> None:
    profile = {"cpu": "", "threads": 1, "repeat": 1, "run_us": 1.0, "peak_gflops": 1.0}
    sides = [report["targets"][0], deepcopy(report["targets"][0])]
    for side, taken in zip(sides, (20.0, after_us), strict=True):
        side["profile"] = profile  # type: ignore[typeddict-item]
        for call in side["calls"]:
            call["measured_us"] = 1.0
        side["calls"][1]["measured_us"] = taken
    found = difference(*sides)
    assert [each["before_us"] for each in found["kernels"]] == ([20.0] if is_named else [])


def test_operators_of_one_side_only(report: Report) -> None:
    before, after = report["targets"][0], deepcopy(report["targets"][0])
    after["nodes"][2]["name"] = "renamed"
    found = difference(before, after)
    assert (found["operators_gone"], found["operators_new"]) == (["active"], ["renamed"])


def named(report: Report, *names: str) -> Report:
    copied = deepcopy(report)
    copied["targets"] = [{**deepcopy(report["targets"][0]), "name": name} for name in names]  # type: ignore[misc]
    return copied


def test_which_targets_are_compared(report: Report) -> None:
    one, other, both = named(report, "a"), named(report, "b"), named(report, "a", "b")
    found = {
        "the only ones": pairs(one, other),
        "those in common": pairs(both, one),
        "those that are named": pairs(both, both, ["a", "b"]),
    }
    names = {why: [(old["name"], new["name"]) for old, new in each] for why, each in found.items()}
    assert names == {
        "the only ones": [("a", "b")],
        "those in common": [("a", "a")],
        "those that are named": [("a", "b")],
    }


def test_targets_that_are_not_there(report: Report) -> None:
    both, others = named(report, "a", "b"), named(report, "c", "d")
    with pytest.raises(InputError) as error:
        pairs(both, others)
    message = "the reports have no target in common; name one of each with --targets A,B"
    assert str(error.value) == message
    with pytest.raises(InputError) as error:
        pairs(both, others, ["a", "b"])
    assert str(error.value) == "--targets: the report has no target b, only c, d"
