"""Models whose results number as the data say, compiled, beside ONNX Runtime on data of many counts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout import Session
from relay_layout.bodies import BRANCH, bodies_of, kind_of
from relay_layout.errors import InputError, ModelError
from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session

RANDOM = np.random.default_rng(11)
FAR = 2**63 - 1

Array = np.ndarray[Any, Any]
Feeds = Sequence[Mapping[str, Array]]


def model_of(
    nodes: str, inputs: str, outputs: str, constants: Mapping[str, Any] | None = None, *, opset: int = 17
) -> Any:
    """Of a graph in the syntax of ``onnx.parser``."""
    header = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    model = onnx.parser.parse_model(f"{header} counted ({inputs}) => ({outputs}) {{ {nodes} }}")
    for name, value in (constants or {}).items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return model


def check(model: Any, feeds: Feeds, tmp_path: Path, atol: float = 0) -> Session:
    """One artifact gives what ONNX Runtime gives for every feed."""
    relay_layout.compile(model, shipped_records=False).save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla")
    reference = reference_session(model.SerializeToString())
    for number, feed in enumerate(feeds):
        expected = reference.run(None, dict(feed))
        found = list(session.run(feed).values())
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == theirs.dtype and ours.shape == theirs.shape, f"feed {number}"
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=atol, err_msg=f"feed {number}")
    return session


def sparse(*shape: int, dtype: str = "float32") -> list[Array]:
    """Tensors with some elements that are not zero, none of them, and all."""
    some = (RANDOM.random(shape) < 0.3) * RANDOM.integers(1, 100, shape)
    return [some.astype(dtype), np.zeros(shape, dtype), np.ones(shape, dtype)]


@pytest.mark.parametrize("dtype", ["float32", "bool", "int32"])
def test_places_of_nonzero(dtype: str, tmp_path: Path) -> None:
    kind = {"float32": "float", "bool": "bool", "int32": "int32"}[dtype]
    model = model_of("y = NonZero(x)", f"{kind}[3,5,2] x", "int64[a,b] y")
    session = check(model, [{"x": value} for value in sparse(3, 5, 2, dtype=dtype)], tmp_path)
    assert session.outputs[0].shape == (3, "y_number")


def test_places_of_any_number_of_rows(tmp_path: Path) -> None:
    model = model_of("y = NonZero(x)", "float[N,5] x", "int64[a,b] y")
    check(model, [{"x": value} for rows in (1, 4) for value in sparse(rows, 5)], tmp_path)


def test_what_is_picked_is_computed_with(tmp_path: Path) -> None:
    nodes = """
        good = Greater(x, least)  places = NonZero(good)  rows = Transpose(places)
        values = GatherND(x, rows)  doubled = Add(values, values)  y = Relu(doubled)
        shape = Shape(values)  fill = ConstantOfShape(shape)  z = Concat <axis=0> (fill, y, values)"""
    model = model_of(nodes, "float[4,6] x", "float[a] y, float[b] z", {"least": np.float32(0.5)})
    feeds = [{"x": RANDOM.random((4, 6), dtype="float32") * scale} for scale in (1, 0.1)]
    check(model, [*feeds, {"x": np.ones((4, 6), "float32")}], tmp_path)


def test_what_is_picked_by_one_mask_twice_fits(tmp_path: Path) -> None:
    """Boxes and scores, each picked by places of its own, as PyTorch's first exporter writes a mask."""
    nodes = """
        good = Greater(x, least)  p = NonZero(good)  at = Transpose(p)  one = GatherND(x, at)
        q = NonZero(good)  there = Transpose(q)  squares = Mul(x, x)  other = GatherND(squares, there)
        y = Add(one, other)  flat = Reshape(good, all)
        r = Compress(squares, flat)  s = Compress(x, flat)  z = Add(r, s)"""
    constants = {"least": np.float32(0.5), "all": np.array([-1], "int64")}
    model = model_of(nodes, "float[4,6] x", "float[a] y, float[b] z", constants)
    check(model, [{"x": RANDOM.random((4, 6), dtype="float32") * scale} for scale in (1, 0.1)], tmp_path)


def test_the_last_of_what_the_data_decide_loses_its_axis(tmp_path: Path) -> None:
    """As the last state of Keras' recurrent layers does: a call that finds none is told so."""
    nodes = "p = NonZero(x)  rows = Transpose(p)  last = Slice(rows, end, far, axis)  y = Squeeze(last, axis)"
    constants = {"end": np.array([-1]), "far": np.array([2**31 - 1]), "axis": np.array([0])}
    model = model_of(nodes, "float[N] x", "int64[a] y", constants)
    session = check(model, [{"x": np.array([0, 3, 1, 0], "float32")}], tmp_path)
    with pytest.raises(InputError, match="dimension 0 of one is 0, where the model's extents make it 1"):
        session.run({"x": np.zeros(4, "float32")})


@pytest.mark.parametrize("kind", ["int64", "int32", "float"])
def test_ranges_whose_ends_are_known_at_run_time(kind: str, tmp_path: Path) -> None:
    model = model_of("y = Range(a, b, c)", f"{kind} a, {kind} b, {kind} c", f"{kind}[n] y")
    dtype = "float32" if kind == "float" else kind
    ranges = [(0, 5, 1), (3, -4, -2), (2, 2, 1), (5, 1, 1), (-7, 8, 4)]
    feeds = [dict(zip("abc", np.array(ends, dtype), strict=True)) for ends in ranges]
    check(model, [{name: np.asarray(value) for name, value in feed.items()} for feed in feeds], tmp_path)


def test_ranges_to_one_end_fit(tmp_path: Path) -> None:
    """Of integers and of real numbers, as masks of sequences whose lengths a network predicts."""
    nodes = """
        r = Range(none, n, one)  f = Cast <to=1> (n)  s = Range(zero, f, half)  t = Range(zero, f, whole)
        p = Cast <to=1> (r)  q = Mul(p, t)  u = Range(none, n, one)  v = Cast <to=1> (u)  y = Add(q, v)"""
    constants = {"none": np.array(0), "one": np.array(1)}
    constants |= {name: np.float32(value) for name, value in {"zero": 0, "half": 0.5, "whole": 1}.items()}
    model = model_of(nodes, "int64 n", "float[m] y, float[k] s", constants)
    check(model, [{"n": np.array(number)} for number in (4, 1, 0, -2)], tmp_path)


def test_ranges_to_what_casts_give_back(tmp_path: Path) -> None:
    """A cast that changes nothing gives its operand, which would be its own source."""
    nodes = "m = Cast <to=7> (n)  r = Range(none, m, one)  s = Range(none, n, one)  y = Add(r, s)"
    model = model_of(nodes, "int64 n", "int64[m] y", {"none": np.array(0), "one": np.array(1)})
    check(model, [{"n": np.array(number)} for number in (4, 0)], tmp_path)


def test_a_range_is_computed_with_what_its_end_is(tmp_path: Path) -> None:
    """As a window of any length is: the count and its use share what they are computed from."""
    nodes = """
        f = Cast <to=1> (n)  last = Sub(f, one)  r = Range(zero, f, one)
        part = Div(r, last)  angle = Mul(part, two)  y = Cos(angle)"""
    constants = {name: np.float32(value) for name, value in {"zero": 0, "one": 1, "two": 2}.items()}
    model = model_of(nodes, "int32 n", "float[m] y", constants)
    check(model, [{"n": np.array(number, "int32")} for number in (4, 9, 2)], tmp_path)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis: int | None, tmp_path: Path) -> None:
    attribute = "" if axis is None else f"<axis={axis}>"
    model = model_of(f"y = Compress {attribute} (x, c)", "float[5,3] x, bool[3] c", "float[a,b] y")
    if axis is None:
        model = model_of("y = Compress(x, c)", "float[5,3] x, bool[3] c", "float[a] y")
    x = RANDOM.random((5, 3), dtype="float32")
    conditions = ([True, False, True], [False] * 3, [True] * 3)
    check(model, [{"x": x, "c": np.array(condition)} for condition in conditions], tmp_path)


def test_shapes_of_the_number_that_a_range_goes_to(tmp_path: Path) -> None:
    """Masks of speech, whose frames the durations of its letters count."""
    nodes = """
        n = ReduceSum <keepdims=0> (x)  column = Reshape (n, m)  again = Squeeze (column)
        limit = Cast <to=1> (again)  frames = Range (z, limit, o)  column2 = Unsqueeze (n, a)
        shape = Concat <axis=0> (k, column2, k)  y = Reshape (frames, shape)
        wide = Concat <axis=0> (column, w)  spread = Expand (y, wide)"""
    constants = {"m": [-1], "z": np.float32(0), "o": np.float32(1), "a": [0], "k": [1], "w": [3]}
    model = model_of(nodes, "int64[N] x", "float[a,b,c] y, float[d,e,f] spread", constants)
    check(model, [{"x": np.array(durations)} for durations in ([2, 1, 3], [0, 1], [0, 0, 0])], tmp_path)


@pytest.mark.parametrize("kind", ["float", "int64", "int8"])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique(kind: str, is_sorted: int, tmp_path: Path) -> None:
    nodes = f"y, first, inverse, counts = Unique <sorted={is_sorted}> (x)"
    names = "int64[b] first, int64[c] inverse, int64[d] counts"
    model = model_of(nodes, f"{kind}[N,7] x", f"{kind}[a] y, {names}")
    dtype = "float32" if kind == "float" else kind
    rows = [RANDOM.integers(0, most, (count, 7)).astype(dtype) for count, most in ((3, 9), (1, 200), (4, 1))]
    check(model, [{"x": value} for value in rows], tmp_path)


@pytest.mark.parametrize("kind", ["float", "int64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("is_sorted", [0, 1])
def test_unique_slices(kind: str, axis: int, is_sorted: int, tmp_path: Path) -> None:
    nodes = f"y, first, inverse, counts = Unique <sorted={is_sorted}, axis={axis}> (x)"
    names = "int64[b] first, int64[c] inverse, int64[d] counts"
    model = model_of(nodes, f"{kind}[N,M,2] x", f"{kind}[a,e,f] y, {names}")
    dtype = "float32" if kind == "float" else kind
    shapes = [(7, 2, 2), (2, 9, 2), (1, 1, 2)]
    check(model, [{"x": RANDOM.integers(0, 2, shape).astype(dtype)} for shape in shapes], tmp_path)


@pytest.mark.parametrize("attributes", ["", "<axis=1>"])
def test_unique_truth(attributes: str, tmp_path: Path) -> None:
    """ONNX Runtime has none of it."""
    model = model_of(f"y, , i = Unique {attributes} (x)", "bool[2,N] x", "bool[a] y, int64[N] i")
    relay_layout.compile(model, shipped_records=False).save(tmp_path / "model.rla")
    x = RANDOM.random((2, 9)) < 0.5
    y, inverse = relay_layout.load(tmp_path / "model.rla").run({"x": x}).values()
    wanted, places = np.unique(x, return_inverse=True, axis=1 if attributes else None)
    assert y.dtype == bool
    np.testing.assert_array_equal(y, wanted)
    np.testing.assert_array_equal(inverse, places.reshape(-1))


def test_unique_elements_along_their_only_axis(tmp_path: Path) -> None:
    model = model_of("y = Unique <axis=0> (x)", "int64[N] x", "int64[a] y")
    check(model, [{"x": RANDOM.integers(0, 9, count)} for count in (1, 20)], tmp_path)


def test_top_of_as_many_as_there_are(tmp_path: Path) -> None:
    nodes = """
        good = Greater(x, least)  places = NonZero(good)  rows = Transpose(places)
        values = GatherND(x, rows)  shape = Shape(values)
        both = Concat <axis=0> (shape, few)  number = ReduceMin <keepdims=1> (both)
        y, order = TopK(values, number)  z = Gather(rows, order)"""
    constants = {"least": np.float32(0.5), "few": np.array([4])}
    model = model_of(nodes, "float[9] x", "float[a] y, int64[b,c] z", constants)
    feeds = [{"x": RANDOM.random(9, dtype="float32") * scale} for scale in (1, 0.6, 0.1, 9)]
    check(model, feeds, tmp_path)


def boxes(images: int, count: int, size: float = 0.4) -> Array:
    """Corners in any order."""
    corners = RANDOM.random((images, count, 2, 1, 2))
    far = corners + RANDOM.random((images, count, 2, 1, 2)) * size - size / 2
    return np.concatenate([corners[:, :, 0], far[:, :, 0]], 2).reshape(images, count, 4).astype("float32")


SUPPRESSION: dict[str, tuple[tuple[int, int, int], str, dict[str, Any]]] = {
    "every": ((1, 1, 60), "b, s, limit, overlap", {"limit": FAR, "overlap": 0.5}),
    "limited": ((2, 3, 60), "b, s, limit, overlap", {"limit": 4, "overlap": 0.5}),
    "scored": ((2, 3, 60), "b, s, limit, overlap, score", {"limit": 50, "overlap": 0.3, "score": 0.4}),
    "no_overlap_given": ((1, 2, 20), "b, s, limit", {"limit": 10}),
    "none_wanted": ((1, 2, 20), "b, s", {}),
    "none_good": ((1, 2, 20), "b, s, limit, overlap, score", {"limit": 9, "overlap": 0.5, "score": 2.0}),
    "limit_of_zero": ((1, 2, 20), "b, s, limit, overlap", {"limit": 0, "overlap": 0.5}),
    "all_of_one": ((1, 1, 1), "b, s, limit, overlap", {"limit": 3, "overlap": 0.5}),
}


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("name", SUPPRESSION)
def test_non_max_suppression(name: str, center: bool, tmp_path: Path) -> None:
    (images, classes, count), operands, given = SUPPRESSION[name]
    kinds = {"limit": "int64", "overlap": "float32", "score": "float32"}
    constants = {key: np.array([value], kinds[key]) for key, value in given.items()}
    model = model_of(
        f"y = NonMaxSuppression <center_point_box={int(center)}> ({operands})",
        f"float[{images},{count},4] b, float[{images},{classes},{count}] s",
        "int64[n,3] y",
        constants,
    )
    feeds = []
    for levels in (1000, 7):
        # Few levels, so that many scores are equal.
        scores = np.round(RANDOM.random((images, classes, count)) * levels) / levels
        feeds.append({"b": np.abs(boxes(images, count)), "s": scores.astype("float32")})
    check(model, feeds, tmp_path)


def test_limits_may_be_computed(tmp_path: Path) -> None:
    model = model_of(
        "y = NonMaxSuppression(b, s, limit, overlap, score)",
        "float[1,30,4] b, float[1,2,30] s, int64[1] limit, float[1] overlap, float[1] score",
        "int64[n,3] y",
    )
    scores = RANDOM.random((1, 2, 30)).astype("float32")
    feeds = [
        {
            "b": boxes(1, 30),
            "s": scores,
            "limit": np.array([limit]),
            "overlap": np.array([overlap], "float32"),
            "score": np.array([0.2], "float32"),
        }
        for limit, overlap in ((3, 0.5), (100, 0.1), (100, 0.9), (0, 0.5))
    ]
    check(model, feeds, tmp_path)


BRANCHES = """
    places = NonZero(x)  rows = Transpose(places)  flat = Squeeze(places, zero)
    picked = Gather(b, flat)  shape = Shape(picked)  total = ReduceProd <keepdims=0> (shape)
    empty = Equal(total, none)  condition = Cast <to=9> (empty)
    kept = If (condition) <
        then_branch = nothing () => (int64[m] nothing_kept) { nothing_kept = Identity(no_places) },
        else_branch = some () => (int64[k] some_kept) {
            scores = Gather(x, flat)  most = ReduceMax <keepdims=0> (scores)  scaled = Div(scores, most)
            one = Unsqueeze(picked, zero)  two = Unsqueeze(scaled, both)
            chosen = NonMaxSuppression(one, two, limit, overlap)
            column = Gather <axis=1> (chosen, last)  some_kept = Squeeze(column, first) }
    >
    best = Slice(kept, zero, few)  y = Gather(picked, best)"""

CONSTANTS: dict[str, Any] = {
    "zero": np.array([0]),
    "first": np.array([1]),
    "none": np.array(0),
    "both": np.array([0, 1]),
    "no_places": np.zeros(0, "int64"),
    "limit": np.array([FAR]),
    "overlap": np.array([0.4], "float32"),
    "last": np.array([2]),
    "few": np.array([5]),
}


def test_branches_for_tensors_that_may_be_empty(tmp_path: Path) -> None:
    """As exporters write the suppression of boxes, which another branch leaves out where there are none."""
    model = model_of(BRANCHES, "float[40] x, float[40,4] b", "float[n,4] y", CONSTANTS)
    feeds = []
    for share in (0.5, 0.05, 0.0, 1.0):
        scores = RANDOM.random(40) * (RANDOM.random(40) < share)
        feeds.append({"x": scores.astype("float32"), "b": boxes(1, 40)[0]})
    check(model, feeds, tmp_path)


def limit_of(model: Any) -> int:
    """How many boxes the suppression in a model is let choose."""
    main = from_onnx(model)["main"]
    calls = [binding.value for block in main.body.blocks for binding in block.bindings]
    (call,) = [
        call
        for call in calls
        if getattr(call, "args", None) and "suppression" in getattr(call.args[0], "name_hint", "")
    ]
    return int(call.args[1].fields[2].value.numpy())


@pytest.mark.parametrize(
    ("end", "changes", "limit"),
    [
        ("kept_5", {}, 5),
        ("every", {"few": np.array([FAR])}, FAR),
        ("from_the_end", {"few": np.array([-1])}, FAR),
        ("limited_before", {"limit": np.array([3])}, 3),
    ],
)
def test_no_more_boxes_are_chosen_than_are_read(end: str, changes: dict[str, Any], limit: int) -> None:
    model = model_of(BRANCHES, "float[40] x, float[40,4] b", "float[n,4] y", CONSTANTS | changes)
    assert limit_of(model) == limit, end


def test_every_box_is_chosen_where_another_reader_wants_it() -> None:
    nodes = BRANCHES + "  z = Gather(picked, kept)"
    model = model_of(nodes, "float[40] x, float[40,4] b", "float[n,4] y, float[m,4] z", CONSTANTS)
    assert limit_of(model) == FAR


SUPPRESSED = "n = NonMaxSuppression(b, s, limit, overlap, overlap)"
"""Of boxes [1,40,4] and scores [1,1,40]."""

BOXES = "float[1,40,4] b, float[1,1,40] s"

NAMED = {
    # Of two graphs beside each other, where one adds what is a constant in the other.
    "a constant of another graph": (
        f"{SUPPRESSED}  w = If <then_branch = t () => (int64[m] p)"
        " { k = Constant <value=int64[1] {1}> ()  p = Add(k, first) }, else_branch = f () => (int64[m] r)"
        " { r = Identity(first) }> (true)  y = If <then_branch = u () => (int64[m,3] o)"
        " { k = Add(first, first)  o = Slice(n, zero, k) }, else_branch = g () => (int64[m,3] q)"
        " { q = Slice(n, zero, first) }> (true)"
    ),
    "its own name within": (
        f"n = If <then_branch = t () => (int64[m,3] n) {{ {SUPPRESSED} }},"
        f" else_branch = f () => (int64[m,3] n) {{ {SUPPRESSED} }}> (true)  y = Slice(n, zero, few)"
    ),
    "a limit without dimensions": f"{SUPPRESSED}  y = Slice(n, zero, few)".replace("limit", "most"),
}


@pytest.mark.parametrize("case", NAMED)
def test_rows_that_are_read_by_names_used_twice(case: str, tmp_path: Path) -> None:
    nodes = NAMED[case]
    constants = {**CONSTANTS, "true": np.array(True), "most": np.array(10)}
    used = {name: value for name, value in constants.items() if name in nodes}
    model = model_of(nodes, BOXES, "int64[k,3] y", used)
    check(model, [{"b": boxes(1, 40), "s": RANDOM.random((1, 1, 40)).astype("float32")}], tmp_path)


def test_a_branch_that_gives_more_than_none_stays_a_branch() -> None:
    other = CONSTANTS | {"no_places": np.array([3])}
    model = model_of(BRANCHES, "float[40] x, float[40,4] b", "float[n,4] y", other)
    assert [kind_of(body) for body in bodies_of(from_onnx(model)).values()] == [BRANCH, BRANCH]


def test_a_loop_of_a_side_that_is_left_out_is_no_function() -> None:
    loop = """nothing_kept = Loop <body = b (int64 i, bool c, int64[0] a) => (bool d, int64[0] e) {
        d = Identity(c)  e = Add(a, a) }> (total, , no_places)"""
    nodes = BRANCHES.replace("nothing_kept = Identity(no_places)", loop)
    model = model_of(nodes, "float[40] x, float[40,4] b", "float[n,4] y", CONSTANTS)
    assert not bodies_of(from_onnx(model))


def test_a_branch_for_another_number_than_none_stays_a_branch() -> None:
    nodes = BRANCHES.replace("Equal(total, none)", "Equal(less, none)")
    nodes = nodes.replace("empty =", "rows = Size(flat)  less = Sub(rows, one_row)  empty =")
    nodes = nodes.replace("rows = Transpose(places)  ", "")
    model = model_of(
        nodes, "float[40] x, float[40,4] b", "float[n,4] y", CONSTANTS | {"one_row": np.array(1)}
    )
    assert [kind_of(body) for body in bodies_of(from_onnx(model)).values()] == [BRANCH, BRANCH]


def test_convolutions_and_products_of_what_is_found(tmp_path: Path) -> None:
    """A second stage: windows around the places found go through convolutions and a product."""
    nodes = """
        scores = ReduceMax <axes=[1], keepdims=0> (x)  good = Greater(scores, least)  places = NonZero(good)
        rows = Transpose(places)  last = Gather <axis=1> (rows, columns)  real = Cast <to=1> (last)
        ends = Add(real, size)  regions = Concat <axis=1> (real, ends)
        image = Gather <axis=1> (rows, zero)
        windows = RoiAlign <output_height=4, output_width=4, sampling_ratio=2> (x, regions, image)
        filtered = Conv <pads=[1, 1, 1, 1]> (windows, kernel)  active = Relu(filtered)
        flat = Flatten(active)  y = Gemm(flat, matrix, bias)"""
    constants = {
        "least": np.float32(0.97),
        "columns": np.array([2, 1]),
        "size": np.float32(3),
        "zero": np.array(0),
        "kernel": RANDOM.standard_normal((16, 8, 3, 3)).astype("float32"),
        "matrix": RANDOM.standard_normal((256, 10)).astype("float32"),
        "bias": RANDOM.standard_normal(10).astype("float32"),
    }
    model = model_of(nodes, "float[2,8,12,12] x", "float[n,10] y", constants)
    feeds = [{"x": RANDOM.random((2, 8, 12, 12), dtype="float32") * scale} for scale in (1, 0.99, 0.5)]
    relay_layout.compile(model, shipped_records=False).save(tmp_path / "model.rla")
    session = relay_layout.load(tmp_path / "model.rla")
    reference = reference_session(model.SerializeToString())
    counts = []
    for feed in feeds:
        (expected,), (found,) = reference.run(None, feed), session.run(feed).values()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        counts.append(len(found))
    assert counts[0] > counts[1] > counts[2] == 0


REFUSED: dict[str, tuple[str, str, str]] = {
    "scalar": (
        "y = NonZero(x)",
        "float x",
        "(NonZero) lists a scalar, which is not supported: give it one dimension by Unsqueeze",
    ),
    "condition": (
        "y = Compress <axis=0> (x, c)",
        "float[2] x, bool[3] c",
        "(Compress) has a condition of 3 elements for an axis of 2",
    ),
    "boxes": (
        "y = NonMaxSuppression(x, s)",
        "float[1,5,4] x, float[1,2,6] s",
        "(NonMaxSuppression) has boxes [1,5,4] and scores [1,2,6] where [N,B,4] and [N,C,B] are due",
    ),
    "limit": (
        "y = NonMaxSuppression(x, s, l)",
        "float[1,5,4] x, float[1,2,5] s, int64[2] l",
        "(NonMaxSuppression) has [2] for its input 2, which should be one number",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    nodes, inputs, message = REFUSED[name]
    with pytest.raises(ModelError) as error:
        from_onnx(model_of(nodes, inputs, "float[n] y"))
    assert str(error.value).endswith(message)
