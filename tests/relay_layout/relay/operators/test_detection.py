"""Anchors and boxes against numpy."""

import math

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import ModelError

RANDOM = np.random.default_rng(7)


def _boxes(images: int, count: int) -> np.ndarray:
    """Rows of class, score and box, some of them to be left out."""
    corners = RANDOM.uniform(0, 4, (images, count, 2))
    rows = np.concatenate(
        [
            RANDOM.integers(-1, 2, (images, count, 1)),
            RANDOM.permutation(images * count).reshape(images, count, 1) / (images * count),
            corners,
            corners + RANDOM.uniform(3, 6, (images, count, 2)),
        ],
        2,
    )
    return rows.astype("float32")


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    area = np.prod(np.maximum(high - low, 0))
    union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - area
    return area / union


def _valid(rows: np.ndarray, threshold: float, with_class: bool = True) -> tuple[np.ndarray, ...]:
    counts = np.zeros(len(rows), "int32")
    moved, indices = np.full_like(rows, -1), np.full(rows.shape[:2], -1, "int32")
    for image, image_rows in enumerate(rows):
        for index, row in enumerate(image_rows):
            if row[1] > threshold and (not with_class or row[0] >= 0):
                moved[image, counts[image]], indices[image, counts[image]] = row, index
                counts[image] += 1
    return counts, moved, indices


def _kept(rows: np.ndarray, count: int, threshold: float, limit: int, top_k: int, force: bool) -> list[int]:
    """Positions of the boxes that stay, by falling score."""
    order = sorted(range(count), key=lambda index: -rows[index, 1])
    kept: list[int] = []
    for index in order[: top_k if top_k > 0 else None]:
        others = [other for other in kept if force or rows[other, 0] == rows[index, 0]]
        # Nothing suppresses a score of 0.
        free = rows[index, 1] <= 0 or all(_overlap(rows[index, 2:], rows[o, 2:]) < threshold for o in others)
        if len(kept) != limit and free:
            kept.append(index)
    return kept


def test_get_valid_counts_and_suppression() -> None:
    x = _boxes(2, 20)
    body = """
        %0 = vision.get_valid_counts(%x, 0.3f);
        %1 = vision.get_valid_counts(%x, 0.5f, id_index=-1);
        %2 = vision.non_max_suppression(%0.1, %0.0, %0.2, -1, 0.3f);
        %3 = vision.non_max_suppression(%0.1, %0.0, %0.2, 3, 0.2f, force_suppress=True, top_k=8);
        %4 = vision.non_max_suppression(%0.1, %0.0, %0.2, -1, 0.3f, return_indices=False);
        %5 = vision.non_max_suppression(%0.1, %0.0, %0.2, -1, 0.3f, return_indices=False,
            invalid_to_bottom=True);
        %6 = vision.non_max_suppression(%0.1, %0.0, %0.2, -1, 0f);
        (%0, %1, %2, %3, %4, %5, %6)"""
    results = evaluate(body, x=x)
    counts, rows, indices = _valid(x, 0.3)
    for result, wanted in zip(results[:6], (counts, rows, indices, *_valid(x, 0.5, False)), strict=True):
        np.testing.assert_array_equal(result, wanted)
    _, _, _, _, _, _, free, free_count, forced, forced_count, spread, moved, same, same_count = results
    for image in range(2):
        kept = _kept(rows[image], counts[image], 0.3, -1, -1, False)
        assert free_count[image, 0] == len(kept) < counts[image]
        np.testing.assert_array_equal(
            free[image], np.pad(indices[image, kept], (0, 20 - len(kept)), constant_values=-1)
        )
        np.testing.assert_array_equal(moved[image, : len(kept)], rows[image, kept])
        assert (moved[image, len(kept) :] == -1).all()
        order = sorted(range(counts[image]), key=lambda index: -rows[image, index, 1])
        for position, index in enumerate(order):
            wanted = rows[image, index] if index in kept else np.full(6, -1)
            np.testing.assert_array_equal(spread[image, position], wanted)
        few = _kept(rows[image], counts[image], 0.2, 3, 8, True)
        assert forced_count[image, 0] == len(few)
        np.testing.assert_array_equal(forced[image, : len(few)], indices[image, few])
        # A threshold of 0 suppresses nothing and sorts nothing.
        np.testing.assert_array_equal(same[image], indices[image])
        assert same_count[image, 0] == counts[image]


def test_all_class_suppression() -> None:
    boxes = _boxes(2, 9)[:, :, 2:]
    scores = RANDOM.permutation(2 * 3 * 9).reshape(2, 3, 9).astype("float32") / 54
    body = """(
        vision.all_class_non_max_suppression(%boxes, %scores, 2, 0.3f, 0.25f),
        vision.all_class_non_max_suppression(%boxes, %scores, -1, 0.3f, -1f))"""
    limited, limited_count, every, every_count = evaluate(body, boxes=boxes, scores=scores)
    for result, count, limit, lowest in ((limited, limited_count, 2, 0.25), (every, every_count, -1, -1)):
        chosen = []
        for image in range(2):
            for name in range(3):
                rows = np.concatenate([np.zeros((9, 1)), scores[image, name][:, None], boxes[image]], 1)
                candidates = int((rows[:, 1] > lowest).sum())
                kept = _kept(rows, 9, 0.3, limit, candidates, True)
                chosen += [(image, name, index) for index in kept]
        assert count.tolist() == [len(chosen)]
        np.testing.assert_array_equal(result[: len(chosen)], chosen)
        assert result.shape == (54, 3)


def test_multibox_prior() -> None:
    x = np.zeros((1, 3, 2, 5), "float32")
    body = """(
        vision.multibox_prior(%x, sizes=[0.5f, 0.25f], ratios=[1f, 2f, 0.5f]),
        vision.multibox_prior(%x, steps=[0.1f, 0.2f], offsets=[0f, 1f], clip=True))"""
    first, second = evaluate(body, x=x)
    shapes = [(0.5, 0.5), (0.25, 0.25)] + [(0.5 * math.sqrt(r), 0.5 / math.sqrt(r)) for r in (2, 0.5)]
    expected = [
        ((j + 0.5) / 5 + side * w * 2 / 5 / 2, (i + 0.5) / 2 + side * h / 2)
        for i in range(2)
        for j in range(5)
        for w, h in shapes
        for side in (-1, 1)
    ]
    np.testing.assert_allclose(first, np.array(expected).reshape(1, -1, 4), atol=1e-6)
    expected = [
        ((j + 1) * 0.2 + side * 2 / 5 / 2, i * 0.1 + side / 2)
        for i in range(2)
        for j in range(5)
        for side in (-1, 1)
    ]
    np.testing.assert_allclose(second, np.clip(expected, 0, 1).reshape(1, -1, 4), atol=1e-6)


@pytest.mark.parametrize("keep", [False, True])
def test_multibox_transform_loc(keep: bool) -> None:
    scores = RANDOM.random((2, 3, 7)).astype("float32")
    locations = RANDOM.standard_normal((2, 28)).astype("float32")
    corners = RANDOM.random((1, 7, 2))
    anchors = np.concatenate([corners, corners + RANDOM.random((1, 7, 2))], 2).astype("float32")
    body = f"""(vision.multibox_transform_loc(%s, %l, %a, clip=False, threshold=0.6f,
        variances=[0.1f, 0.2f, 0.3f, 0.4f], keep_background={keep}),)"""
    rows, counts = evaluate(body, s=scores, l=locations, a=anchors)
    for image in range(2):
        expected = []
        for anchor in range(7):
            first = 0 if keep else 1
            name = int(scores[image, first:, anchor].argmax()) + first
            score = scores[image, name, anchor]
            name = name if score >= 0.6 else 0
            if not keep and name == 0:
                continue
            left, top, right, bottom = anchors[0, anchor]
            px, py, pw, ph = locations[image, anchor * 4 : anchor * 4 + 4]
            x, y = (
                px * 0.1 * (right - left) + (left + right) / 2,
                py * 0.2 * (bottom - top) + (top + bottom) / 2,
            )
            w, h = math.exp(pw * 0.3) * (right - left) / 2, math.exp(ph * 0.4) * (bottom - top) / 2
            expected.append([name - first, score, x - w, y - h, x + w, y + h])
        assert counts[image] == len(expected)
        np.testing.assert_allclose(rows[image, : len(expected)], np.reshape(expected, (-1, 6)), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("vision.get_valid_counts(%x, 0f, score_index=6)", "score_index is 6, but rows have 6 entries"),
        ("vision.get_valid_counts(%x, 0f, id_index=-2)", "id_index is -2, but rows have 6 entries"),
        ("vision.get_valid_counts(%x, %n)", "score_threshold is a number, not a tensor of 1 dimensions"),
        (
            "vision.non_max_suppression(%x, %n, %i, -1, 0.5f, coord_start=3)",
            r"coord_start \+ 3 is 6, but rows",
        ),
        ("vision.non_max_suppression(%x, %x, %i, -1, 0.5f)", "valid_count must have 1 dimension"),
        (
            'vision.all_class_non_max_suppression(%b, %b, -1, 0.5f, 0f, output_format="tensorflow")',
            "output_format is 'tensorflow'; it can be onnx",
        ),
        ("vision.all_class_non_max_suppression(%b, %x, -1, 0.5f, 0f)", "not of the same images and boxes"),
        ("vision.multibox_prior(%f, sizes=[])", "sizes needs 1 to 1024 numbers"),
        ("vision.multibox_prior(%f, ratios=[1f, 0f])", "ratios must be positive"),
        ("vision.multibox_prior(%f, steps=[1f])", "steps needs 2 numbers"),
        ("vision.multibox_transform_loc(%x, %l, %x, variances=[1f, 1f, 1f, 1f])", "do not fit 6 anchors"),
    ],
)
def test_what_does_not_fit_is_refused(call: str, message: str) -> None:
    inputs = {
        "x": np.zeros((1, 5, 6), "float32"),
        "n": np.zeros(1, "int32"),
        "i": np.zeros((1, 5), "int32"),
        "b": np.zeros((1, 5, 4), "float32"),
        "f": np.zeros((1, 2, 3, 3), "float32"),
        "l": np.zeros((1, 7), "float32"),
    }
    with pytest.raises(ModelError, match=message):
        imported(program(call, **inputs))
