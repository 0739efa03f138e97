"""Operators whose shapes are computed when the network runs, or of the extents of inputs."""

from typing import Any

import numpy as np
import pytest
import tvm
from run_time_harness import computed

from relay_layout import relay
from relay_layout.errors import InputError, ModelError

DATA = np.random.default_rng(0).standard_normal((4, 3)).astype("float32")
OPEN = relay.Any()
X = relay.var("x", shape=(OPEN, 3))
SHAPE = relay.shape_of(X)
FIXED = relay.var("x", shape=(4, 3))


def _list(name: str, length: int) -> Any:
    return relay.var(name, shape=(length,), dtype="int64")


WIDTHS = relay.var("p", shape=(2, 2), dtype="int32")


def _numbers(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


FROM_EXTENTS: dict[str, tuple[Any, np.ndarray]] = {
    "zeros": (relay.zeros(SHAPE, "float32") + X, DATA),
    "ones": (relay.ones(SHAPE, "float32") * X, DATA),
    "full": (relay.full(relay.const(2.0), SHAPE, "float32") * X, 2 * DATA),
    "broadcast_to": (relay.broadcast_to(relay.const(DATA[:1]), SHAPE) + X, DATA + DATA[:1]),
    "a dimension more": (relay.reshape(X, relay.concatenate([relay.const([1]), SHAPE], axis=0)), DATA[None]),
    "flat": (relay.reshape(X, relay.reshape(relay.prod(SHAPE), [1])), DATA.ravel()),
    "size": (relay.reshape(X, relay.reshape(relay.ndarray_size(X), [1])), DATA.ravel()),
    "the rest": (
        relay.reshape(
            X, relay.concatenate([relay.take(SHAPE, relay.const([0])), relay.const([3, -1])], axis=0)
        ),
        DATA[:, :, None],
    ),
    "computed": (
        relay.zeros(relay.strided_slice(SHAPE, [0], [1]) * relay.const([2]) + relay.const([1]), "float32"),
        np.zeros(9, "float32"),
    ),
    "arange": (
        relay.arange(relay.const(0), relay.take(SHAPE, relay.const(0)), relay.const(1), dtype="int32"),
        np.arange(4, dtype="int32"),
    ),
}


@pytest.mark.parametrize("name", FROM_EXTENTS)
def test_from_extents(name: str) -> None:
    """What is computed of extents is known to be those, so that results fit other tensors."""
    expression, expected = FROM_EXTENTS[name]
    (result,) = computed(expression, x=DATA)
    np.testing.assert_array_equal(result, expected)


SLICED = relay.strided_slice(FIXED, _list("b", 2), _list("e", 2), _list("s", 2))
RESHAPED = relay.reshape(FIXED, _list("shape", 2))


@pytest.mark.parametrize("shape", [(6, 2), (-1, 6), (0, -1), (12, 1)])
def test_reshape(shape: tuple[int, ...]) -> None:
    """A -1 is what is left over, a 0 the data's own extent."""
    (result,) = computed(relay.nn.relu(RESHAPED) + relay.const(1.0), x=DATA, shape=_numbers(*shape))
    extents = [4 if extent == 0 else extent for extent in shape]
    np.testing.assert_array_equal(result, np.maximum(DATA.reshape(extents), 0) + 1)


def test_reshape_to_fewer_elements() -> None:
    """The number of elements is checked."""
    with pytest.raises(InputError, match="is 10, where the model's extents make it 12"):
        computed(RESHAPED, x=DATA, shape=_numbers(5, 2))


def test_broadcast_to() -> None:
    """An extent other than 1 has to be the new one."""
    row = relay.var("x", shape=(1, 3))
    expression = relay.broadcast_to(row, _list("shape", 2))
    (result,) = computed(expression, x=DATA[:1], shape=_numbers(5, 3))
    np.testing.assert_array_equal(result, np.broadcast_to(DATA[:1], (5, 3)))
    with pytest.raises(InputError, match="is 4, where the model's extents make it 3"):
        computed(expression, x=DATA[:1], shape=_numbers(5, 4))


@pytest.mark.parametrize("reps", [(2, 3), (2, 1, 3), (2,)])
def test_tile(reps: tuple[int, ...]) -> None:
    (result,) = computed(relay.tile(FIXED, _list("reps", len(reps))), x=DATA, reps=_numbers(*reps))
    np.testing.assert_array_equal(result, np.tile(DATA, reps))


@pytest.mark.parametrize(
    ("begin", "end", "strides", "mode"),
    [
        ((1, -2), (9, 3), None, "end"),
        ((1,), (4,), [2], "end"),
        ((1, 0), (2, -1), None, "size"),
        ((3, 0), (1, 3), None, "end"),
        ((9, 0), (0, 3), [-2, 1], "end"),
        ((-1, 0), (-9, 2), [-3], "end"),
        ((0, 2), (3, 0), [-1, -1], "end"),
    ],
)
def test_strided_slice(begin: Any, end: Any, strides: Any, mode: str) -> None:
    """Limits count from the end where negative, and are clamped."""
    count = len(begin)
    expression = relay.strided_slice(FIXED, _list("b", count), _list("e", count), strides, slice_mode=mode)
    (result,) = computed(expression, x=DATA, b=_numbers(*begin), e=_numbers(*end))
    ends = [
        (first + size if size >= 0 else None) if mode == "size" else size
        for first, size in zip(begin, end, strict=True)
    ]
    steps = [*(strides or []), 1, 1][:count]
    np.testing.assert_array_equal(result, DATA[tuple(map(slice, begin, ends, steps))])


@pytest.mark.parametrize("strides", [(2, -1), (-3, 2), (1, 1)])
def test_strides_of_a_slice(strides: tuple[int, ...]) -> None:
    down = [step < 0 for step in strides]
    begin = [5 if back else 1 for back in down]
    end = [-9 if back else 4 for back in down]
    (result,) = computed(SLICED, x=DATA, b=_numbers(*begin), e=_numbers(*end), s=_numbers(*strides))
    last = [None if back else 4 for back in down]
    np.testing.assert_array_equal(result, DATA[tuple(map(slice, begin, last, strides))])


def test_a_stride_of_nothing() -> None:
    with pytest.raises(InputError, match="is 1, where the model's extents make it 0"):
        computed(SLICED, x=DATA, b=_numbers(0, 0), e=_numbers(4, 3), s=_numbers(1, 0))


@pytest.mark.parametrize("widths", [((1, 0), (2, 3)), ((0, 0), (0, 0)), ((-1, 2), (1, -2))])
def test_pad(widths: Any) -> None:
    """Negative widths take elements away."""
    expression = relay.nn.pad(FIXED, WIDTHS, relay.const(2)) + relay.const(1.0)
    (result,) = computed(expression, x=DATA, p=np.array(widths, "int32"))
    kept = DATA[
        tuple(
            slice(max(-low, 0), extent + min(high, 0))
            for (low, high), extent in zip(widths, DATA.shape, strict=True)
        )
    ]
    expected = np.pad(kept, [[max(one, 0) for one in pair] for pair in widths], constant_values=2)
    np.testing.assert_array_equal(result, expected + 1)


def test_pad_of_an_open_extent_by_a_value_that_is_an_input() -> None:
    expression = relay.nn.pad(X, WIDTHS, relay.var("v", shape=()))
    (result,) = computed(expression, x=DATA, p=np.array([(2, 1), (0, 1)], "int32"), v=np.float32(-1))
    np.testing.assert_array_equal(result, np.pad(DATA, [(2, 1), (0, 1)], constant_values=-1))


@pytest.mark.parametrize("factor", [2.0, 1.5])
def test_upsampling(factor: float) -> None:
    """As by factors that are numbers."""
    image = relay.var("x", shape=(1, 1, 4, 3))
    scale = relay.var("s", shape=())
    for options in ({"layout": "NCHW", "method": "bilinear", "align_corners": True}, {}):
        ours = relay.nn.upsampling(image, scale, 2.0, **options)
        (result,) = computed(ours, x=DATA.reshape(1, 1, 4, 3), s=np.float32(factor))
        (expected,) = computed(relay.nn.upsampling(image, factor, 2.0, **options), x=DATA.reshape(1, 1, 4, 3))
        np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_upsampling3d() -> None:
    volume = DATA.reshape(1, 1, 2, 2, 3)
    scale = relay.var("s", shape=())
    options = {"coordinate_transformation_mode": "asymmetric"}
    expression = relay.nn.upsampling3d(relay.var("x", shape=volume.shape), scale, 1.0, scale, **options)
    (result,) = computed(expression, x=volume, s=np.float32(2))
    np.testing.assert_array_equal(result, volume.repeat(2, 2).repeat(2, 4))


@pytest.mark.parametrize("k", [2, 0])
def test_topk(k: int) -> None:
    """All of them for 0, as for a k that is known."""
    expression = relay.topk(FIXED, relay.var("k", shape=(), dtype="int32"), axis=1).astuple()
    values, places = computed(expression, x=DATA, k=np.array(k, "int32"))
    order = np.argsort(-DATA, axis=1)[:, : k or 3]
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(values, np.take_along_axis(DATA, order, 1))


@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot(axis: int) -> None:
    """Indices beyond the depth have no one."""
    indices = relay.var("i", shape=(4,), dtype="int32")
    depth = relay.var("depth", shape=(), dtype="int32")
    expression = relay.one_hot(indices, relay.const(2.0), relay.const(-1.0), depth, axis, "float32")
    (result,) = computed(expression, i=np.array([0, 2, 1, 5], "int32"), depth=np.array(3, "int32"))
    expected = np.where(np.array([0, 2, 1, 5])[:, None] == np.arange(3), 2, -1)
    np.testing.assert_array_equal(result, expected if axis == -1 else expected.T)


def test_resize2d() -> None:
    image = DATA.reshape(1, 1, 4, 3)
    expression = relay.image.resize2d(
        relay.var("x", shape=(1, 1, 4, 3)),
        _list("size", 2),
        method="nearest_neighbor",
        coordinate_transformation_mode="asymmetric",
        rounding_method="floor",
    )
    (result,) = computed(expression, x=image, size=_numbers(8, 6))
    np.testing.assert_array_equal(result, image.repeat(2, 2).repeat(2, 3))


@pytest.mark.parametrize(("start", "stop", "step"), [(1, 6, 2), (5, 0, -2), (3, 3, 1)])
def test_arange(start: float, stop: float, step: float) -> None:
    names = ("start", "stop", "step")
    limits = [relay.var(name, shape=()) for name in names]
    given = {name: np.float32(number) for name, number in zip(names, (start, stop, step), strict=True)}
    (result,) = computed(relay.arange(*limits, dtype="float32"), **given)
    np.testing.assert_array_equal(result, np.arange(start, stop, step, "float32"))


def test_text() -> None:
    """A call prints under the name that Relay had for it."""
    text = relay.astext(relay.Function([FIXED, relay.analysis.free_vars(RESHAPED)[1]], RESHAPED))
    assert "dyn.reshape(%x, %shape" in text
    assert relay.astext(relay.parse_expr(text)) == text


def test_modules_print_shapes_of_tensors() -> None:
    """As what has the shape of a tensor."""
    row = relay.var("row", shape=(1, 3))
    net = relay.ones(SHAPE, "float32") + relay.broadcast_to(row, SHAPE)
    text = relay.astext(tvm.IRModule.from_expr(net))
    assert "full_like(%x, 1f)" in text and "broadcast_to_like(%row, %x)" in text
    assert relay.astext(relay.fromtext(text)) == text


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: relay.reshape(X, relay.var("s", shape=(OPEN,), dtype="int64")), "a known number of entries"),
        (lambda: relay.reshape(X, relay.var("s", shape=(2,))), "newshape is of integers, not float32"),
        (lambda: relay.zeros(SHAPE * relay.const([0, 0]) - relay.const([1, 1]), "int8"), "negative entry"),
        (lambda: relay.broadcast_to(X, _list("s", 1)), "fewer entries than the data's 2 dimensions"),
        (
            lambda: relay.strided_slice(X, _list("b", 1), _list("e", 1), _list("s", 2)),
            "strides have 2 entries, begin and end 1",
        ),
        (lambda: relay.strided_slice(X, _list("b", 1), [1], axes=[1]), "axes need a begin and an end"),
        (lambda: relay.nn.pad(X, _list("p", 2)), "pad_width has no pair of integers for each of 2"),
        (lambda: relay.nn.pad(X, WIDTHS, pad_mode="edge"), "pad_mode is 'edge'; it is 'constant' where"),
        (
            lambda: relay.expand_dims(X, relay.var("a", shape=(), dtype="int64")),
            "'axis' is computed when the network runs",
        ),
    ],
    ids=["open", "floats", "negative", "fewer", "strides", "axes", "pad", "edge", "axis"],
)
def test_refused(make: Any, message: str) -> None:
    """In a line that says what can be given instead."""
    with pytest.raises(ModelError, match=message):
        tvm.IRModule.from_expr(make())
