"""What a report says of a graph, its kernels and its memory."""

import pytest

from relay_layout.report.schema import Node, Report
from tests.relay_layout.report.conftest import HOSTILE


def node(report: Report, name: str) -> Node:
    nodes = report["targets"][0]["nodes"]
    (found,) = [node for node in nodes if (node["type"], node["name"]) == ("operator", name)]
    return found


def test_nodes_lead_from_inputs_to_outputs(report: Report) -> None:
    target = report["targets"][0]
    names = [(node["type"], node["name"]) for node in target["nodes"]]
    assert names == [
        ("input", "image"),
        ("operator", "first"),
        ("operator", "active"),
        ("operator", "shares"),
        ("operator", HOSTILE),
        ("operator", "result"),
        ("output", "result"),
    ]
    assert [(edge["source"], edge["target"]) for edge in target["edges"]] == [
        (place, place + 1) for place in range(6)
    ]


def test_layouts_before_and_after(report: Report) -> None:
    first = node(report, "first")
    assert first["before"] == {"operands": ["NCHW", "OIHW"], "results": ["NCHW"]}
    assert first["after"] == {"operands": ["NCHW16c", "OIHW16i16o"], "results": ["NCHW16c"]}
    assert (first["how"], first["shape"], first["dtype"]) == ("chosen", [1, 32, 9, 11], "float32")


def test_transforms_lie_on_the_edges_that_they_serve(report: Report) -> None:
    target = report["targets"][0]
    transforms = {
        (edge["source"], edge["target"]): target["transforms"][edge["transform"]]
        for edge in target["edges"]
        if edge["transform"] is not None
    }
    ways = {place: (each["source"], each["target"]) for place, each in transforms.items()}
    assert ways == {
        (0, 1): ("NCHW", "NCHW16c"),
        (2, 3): ("NCHW16c", "NCHW"),
        (3, 4): ("NCHW", "NCHW16c"),
        # After the ReLU, which so stays in the kernel of the second convolution.
        (5, 6): ("NCHW16c", "NCHW"),
    }
    assert transforms[0, 1]["bytes"] == 16 * 9 * 11 * 4
    called = transforms[0, 1]["call"]
    assert called is not None
    assert target["calls"][called]["operators"][0] == "image_transformed"


def test_what_blocked_a_layout(report: Report) -> None:
    shares = node(report, "shares")
    assert shares["how"] == "keeps its own"
    assert shares["reason"] == "a block must not cut C, which nn.softmax needs as one run"
    assert {each["layout"] for each in shares["refused"]} == {"NCHW16c"}


def test_alternatives_say_what_the_function_would_cost(report: Report) -> None:
    ways = node(report, "active")["alternatives"]
    assert [way["chosen"] for way in ways] == [True, False]
    assert (ways[0]["more_us"], ways[0]["more_transforms"]) == (0.0, 0)
    # In NCHW its operand is transformed, and its result no longer.
    assert ways[1]["operands"] == ["NCHW"]
    assert ways[1]["more_transforms"] == 0


def test_every_operator_has_the_call_that_computes_it(report: Report) -> None:
    target = report["targets"][0]
    for name in ("first", "active", "shares", HOSTILE, "result"):
        call = node(report, name)["call"]
        assert call is not None, name
        assert name in target["calls"][call]["operators"]
    assert node(report, "first")["call"] == node(report, "active")["call"]


def test_kernels_have_work_knobs_and_an_estimate(report: Report) -> None:
    target = report["targets"][0]
    call = target["calls"][node(report, "first")["call"] or 0]
    assert (call["operator"], call["source"]) == ("conv2d", "default")
    assert call["gigaflop"] == pytest.approx(2 * 32 * 9 * 11 * 16 * 9 / 1e9)
    assert call["knobs"] and call["estimate_us"] and call["estimate_us"] > 0
    moved = 16 * 9 * 11 + 32 * 16 * 9 + 32 * 9 * 11
    assert call["bytes"] == 4 * moved
    assert call["measured_us"] is None


def test_memory_is_planned_within_its_storages(report: Report) -> None:
    memory = report["targets"][0]["memory"]
    assert memory["weight_bytes"] == 2 * 32 * 16 * 9 * 4
    assert memory["storage_bytes"] == sum(storage["bytes"] for storage in memory["storages"])
    calls = len(report["targets"][0]["calls"])
    tensors = [(storage, tensor) for storage in memory["storages"] for tensor in storage["tensors"]]
    assert len(tensors) >= 6
    for storage, tensor in tensors:
        assert tensor["offset"] + tensor["bytes"] <= storage["bytes"]
        assert 0 <= tensor["first"] <= tensor["last"] < calls


def test_no_two_tensors_share_bytes_at_a_time(report: Report) -> None:
    for storage in report["targets"][0]["memory"]["storages"]:
        tensors = storage["tensors"]
        for place, one in enumerate(tensors):
            for other in tensors[place + 1 :]:
                apart = (
                    one["last"] < other["first"]
                    or other["last"] < one["first"]
                    or one["offset"] + one["bytes"] <= other["offset"]
                    or other["offset"] + other["bytes"] <= one["offset"]
                )
                assert apart, (one, other)
