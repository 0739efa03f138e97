"""Non-maximum suppression, beside the greedy choice written out box by box."""

from typing import Any

import numpy as np
import pytest
from kernel_harness import Array, compile_function, host_cpus, run_function, target_for
from tvm import te, tirx

from topi_ext.compute.boxes import from_center, suppress_every_class

TARGET = target_for(host_cpus()[-1])
RANDOM = np.random.default_rng(3)


def overlap(one: Array, other: Array) -> float:
    """Of (left, top, right, bottom)."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    areas = sum((box[2] - box[0]) * (box[3] - box[1]) for box in (one, other))
    return float(width * height / (areas - width * height))


def expected_of(sides: Array, scores: Array, limit: int, threshold: float, lowest: float) -> list[list[int]]:
    """``sides`` are (images, boxes, 4): left, top, right, bottom."""
    found = []
    for image, classes in enumerate(scores):
        for number, values in enumerate(classes):
            kept: list[int] = []
            for box in np.argsort(-values, kind="stable"):
                near = [overlap(sides[image, box], sides[image, other]) for other in kept]
                if values[box] > lowest and len(kept) < limit and all(value <= threshold for value in near):
                    kept.append(int(box))
            found += [[image, number, box] for box in kept]
    return found


def chosen(boxes: Array, scores: Array, limit: int, threshold: float, lowest: float, **options: Any) -> Array:
    images, classes, count = scores.shape
    tensors = [
        te.placeholder(boxes.shape, "float32"),
        te.placeholder(scores.shape, "float32"),
        te.placeholder((), "int64"),
        te.placeholder((), "float32"),
        te.placeholder((), "float32"),
    ]
    results = suppress_every_class(*tensors, **options)
    function = compile_function(te.create_prim_func([*tensors, *results]), TARGET)
    most = options.get("most", count)
    scalars = np.array(limit), np.array(threshold, "float32"), np.array(lowest, "float32")
    outputs = [((images * classes * most, 3), "int64"), ((1,), "int64")]
    rows, total = run_function(function, [boxes, scores, *scalars], outputs)
    return rows[: total[0]]


@pytest.mark.parametrize("count", [1, 15, 16, 17, 33, 100])
def test_boxes_are_chosen_by_their_scores(count: int) -> None:
    near = RANDOM.random((2, count, 2))
    sides = np.concatenate([near, near + RANDOM.random((2, count, 2)) * 0.3], 2).astype("float32")
    # Corners in another order are the same box.
    turned = np.ascontiguousarray(sides[..., [2, 1, 0, 3]])
    scores = RANDOM.permutation(2 * 3 * count).reshape(2, 3, count).astype("float32") / max(count, 1)
    for limit, threshold, lowest in ((count, 0.3, -1.0), (3, 0.3, 1.0), (count, 0.9, 2.0), (0, 0.5, -1.0)):
        found = chosen(turned, scores, limit, threshold, lowest)
        expected = expected_of(sides, scores, limit, threshold, lowest)
        np.testing.assert_array_equal(found, np.array(expected).reshape(-1, 3))


def test_chosen_boxes_fill_chunks() -> None:
    """More than two chunks of boxes that do not overlap, and each of them a second time."""
    apart = np.arange(40)[:, None] * 2.0 + np.array([0, 0, 1, 1])
    sides = np.concatenate([apart, apart])[None].astype("float32")
    scores = np.linspace(1, 0.1, 80)[None, None].astype("float32")
    found = chosen(sides, scores, 80, 0.5, 0.0)
    np.testing.assert_array_equal(found[:, 2], np.arange(40))


def test_room_for_the_limit_is_enough() -> None:
    sides = np.tile(np.arange(20)[:, None] * 2.0 + np.array([0, 0, 1, 1]), (1, 1, 1)).astype("float32")
    scores = RANDOM.random((1, 4, 20)).astype("float32")
    found = chosen(sides, scores, 5, 0.5, 0.0, most=5)
    np.testing.assert_array_equal(found, expected_of(sides, scores, 5, 0.5, 0.0))


def test_boxes_around_centers() -> None:
    centers = RANDOM.random((1, 30, 4)).astype("float32")
    sides = np.concatenate(
        [centers[..., :2] - centers[..., 2:] / 2, centers[..., :2] + centers[..., 2:] / 2], 2
    )
    scores = RANDOM.random((1, 2, 30)).astype("float32")
    found = chosen(centers, scores, 30, 0.2, 0.1, sides=from_center)
    np.testing.assert_array_equal(found, expected_of(sides, scores, 30, 0.2, 0.1))


def test_of_equal_scores_the_first_is_better() -> None:
    sides = np.tile(np.array([0, 0, 1, 1], "float32"), (1, 5, 1))
    scores = np.array([[[0.5, 0.9, 0.9, 0.5, 0.9]]], "float32")
    np.testing.assert_array_equal(chosen(sides, scores, 5, 0.5, 0.0), [[0, 0, 1]])
    np.testing.assert_array_equal(chosen(sides, scores, 5, 1.0, 0.0)[:, 2], [1, 2, 4, 0, 3])


def test_a_rule_of_ones_own() -> None:
    def at_least(common: Any, threshold: Any, score: Any) -> Any:
        return tirx.all(common >= threshold, score > 0)

    # The second half overlaps the first one by a third; what has no score is never suppressed.
    sides = np.array([[[0, 0, 2, 1], [1, 0, 3, 1], [1, 0, 3, 1]]], "float32")
    scores = np.array([[[0.9, 0.5, 0.0]]], "float32")
    third = float(np.float32(1) / np.float32(3))
    assert chosen(sides, scores, 3, third, -1.0, suppresses=at_least)[:, 2].tolist() == [0, 2]
    assert chosen(sides, scores, 3, third, -1.0)[:, 2].tolist() == [0, 1]
