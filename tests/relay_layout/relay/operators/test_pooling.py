"""Pooling against its definition."""

import numpy as np
import pytest
from relay_harness import evaluate, execute, imported, program
from tvm import relax
from window_reference import axes, pool

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import print_text, read_text

RNG = np.random.default_rng(4)
X1 = RNG.standard_normal((2, 3, 11)).astype("float32")
X2 = RNG.standard_normal((2, 4, 9, 7)).astype("float32")
X3 = RNG.standard_normal((1, 2, 5, 6, 7)).astype("float32")


def close(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["max", "avg"])
def test_windows(kind: str) -> None:
    results = evaluate(
        f"""(nn.{kind}_pool1d(%x, pool_size=[3], strides=[2], padding=[1, 2]),
             nn.{kind}_pool2d(%y, pool_size=[3, 2], strides=[2, 3], padding=[1, 0]),
             nn.{kind}_pool2d(%y, pool_size=[2, 3], padding=[0, 1, 1, 2], dilation=[3, 2]),
             nn.{kind}_pool3d(%z, pool_size=[2, 1, 3], strides=[1, 2, 2], padding=[1, 0, 2]),
             nn.{kind}_pool2d(%h, pool_size=[3, 2], strides=[2, 2], layout="NHWC"),
             nn.{kind}_pool2d(%b, pool_size=[3, 2], strides=[2, 2], layout="NCHW2c"))""",
        x=X1,
        y=X2,
        z=X3,
        h=axes(X2, "NCHW", "NHWC"),
        b=np.ascontiguousarray(X2.reshape(2, 2, 2, 9, 7).transpose(0, 1, 3, 4, 2)),
    )
    close(results[0], pool(X1, [3], [2], [1, 2], [1], kind))
    close(results[1], pool(X2, [3, 2], [2, 3], [1, 0, 1, 0], [1, 1], kind))
    close(results[2], pool(X2, [2, 3], [1, 1], [0, 1, 1, 2], [3, 2], kind))
    close(results[3], pool(X3, [2, 1, 3], [1, 2, 2], [1, 0, 2] * 2, [1] * 3, kind))
    expected = pool(X2, [3, 2], [2, 2], [0] * 4, [1, 1], kind)
    close(results[4], axes(expected, "NCHW", "NHWC"))
    close(results[5].transpose(0, 1, 4, 2, 3).reshape(expected.shape), expected)


CEIL = [
    ([2, 2], [2, 2], [0, 0, 0, 0], [1, 1]),
    ([3, 3], [2, 3], [1, 1, 0, 1], [1, 1]),
    # The last window starts behind the tensor: on both axes, on one while the other has one more, on one.
    ([2, 2], [3, 3], [0, 0, 2, 1], [1, 1]),
    ([2, 2], [3, 4], [0, 1, 2, 0], [1, 1]),
    ([2, 3], [3, 2], [0, 0, 2, 0], [1, 1]),
    ([2, 2], [4, 2], [1, 1, 1, 1], [2, 2]),
]


@pytest.mark.parametrize(
    ("kind", "include"), [("max", False), ("avg", False), ("avg", True)], ids=["max", "inside", "all"]
)
def test_ceil_mode(kind: str, include: bool) -> None:
    """As many windows as Relay has, and the counts by which Relay divides."""
    flags = "ceil_mode=True" + (", count_include_pad=True" if include else "")
    calls = [
        f"nn.{kind}_pool2d(%x, pool_size={k}, strides={s}, padding={p}, dilation={d}, {flags})"
        for k, s, p, d in CEIL
    ]
    for attributes, result in zip(CEIL, evaluate(f"({', '.join(calls)})", x=X2), strict=True):
        close(result, pool(X2, *attributes, kind, True, include))


def test_count_include_pad() -> None:
    results = evaluate(
        """(nn.avg_pool1d(%x, pool_size=[3], padding=[2, 1], count_include_pad=True),
            nn.avg_pool2d(%y, pool_size=[3, 3], padding=[1, 2, 2, 1], count_include_pad=True, strides=[2, 2]),
            nn.avg_pool3d(%z, pool_size=[2, 2, 2], padding=[1], count_include_pad=True, ceil_mode=True,
                          strides=[2, 2, 2]))""",
        x=X1,
        y=X2,
        z=X3,
    )
    close(results[0], pool(X1, [3], [1], [2, 1], [1], "avg", False, True))
    close(results[1], pool(X2, [3, 3], [2, 2], [1, 2, 2, 1], [1, 1], "avg", False, True))
    close(results[2], pool(X3, [2] * 3, [2] * 3, [1] * 6, [1] * 3, "avg", True, True))


def test_integers() -> None:
    x = RNG.integers(-100, 100, (1, 2, 4, 4)).astype("int32")
    largest, mean = evaluate(
        """(nn.max_pool2d(%x, pool_size=[3, 3], padding=[1, 1]),
            nn.avg_pool2d(%x, pool_size=[2, 2], strides=[2, 2]))""",
        x=x,
    )
    close(largest, pool(x.astype("float32"), [3, 3], [1, 1], [1] * 4, [1, 1], "max").astype("int32"))
    sums = x.reshape(1, 2, 2, 2, 2, 2).sum((3, 5))
    np.testing.assert_array_equal(mean, np.trunc(sums / 4).astype("int32"))


def test_a_relax_pooling_that_rounds_up() -> None:
    """Relax leaves out windows that start behind the tensor; Relay text for it must do the same."""
    for kernel, strides, padding in (([2, 2], [3, 3], [0, 0, 2, 1]), ([2, 2], [3, 4], [0, 1, 2, 0])):
        data = relax.Var("x", relax.TensorType((2, 4, 9, 7), "float32"))
        builder = relax.BlockBuilder()
        with builder.function("main", [data]):
            call = relax.op.nn.max_pool2d(data, kernel, strides, padding, ceil_mode=True)
            builder.emit_func_output(builder.emit(call))
        module = builder.get()
        (direct,) = execute(module, [X2])
        again = from_tree(read_text(print_text(to_tree(module)), "printed"))
        (printed,) = execute(again, [X2])
        np.testing.assert_array_equal(printed, direct)


def test_whole_image() -> None:
    results = evaluate(
        """(nn.global_max_pool2d(%x), nn.global_avg_pool2d(%x),
            nn.global_max_pool2d(%h, layout="NHWC"), nn.global_avg_pool2d(%h, layout="NHWC"),
            nn.adaptive_avg_pool2d(%x, output_size=[1]))""",
        x=X2,
        h=axes(X2, "NCHW", "NHWC"),
    )
    largest, mean = X2.max((2, 3), keepdims=True), X2.mean((2, 3), keepdims=True)
    close(results[0], largest)
    close(results[1], mean)
    close(results[2], axes(largest, "NCHW", "NHWC"))
    close(results[3], axes(mean, "NCHW", "NHWC"))
    close(results[4], mean)


@pytest.mark.parametrize("kind", ["avg", "max"])
def test_global_pooling_keeps_its_name(kind: str) -> None:
    for call in (f"nn.global_{kind}_pool2d(%x)", f'nn.global_{kind}_pool2d(%x, layout="NHWC")'):
        assert call in print_text(to_tree(imported(program(call, x=X2))))


def test_other_maxima_are_no_pooling() -> None:
    for call in ("max(%x, axis=[2, 3])", "max(%x, axis=[1, 3], keepdims=True)", "max(%x, keepdims=True)"):
        assert call in print_text(to_tree(imported(program(call, x=X2))))


def adaptive(data: np.ndarray, sizes: list[int], reduce: str) -> np.ndarray:
    """Element i of n along an axis of k covers from floor(i k / n) to ceil((i + 1) k / n)."""
    result = np.zeros((*data.shape[:2], *sizes))
    for index in np.ndindex(*sizes):
        spans = [
            slice(place * extent // size, -(-(place + 1) * extent // size))
            for place, extent, size in zip(index, data.shape[2:], sizes, strict=True)
        ]
        rest = (slice(None), slice(None))
        part = data[rest + tuple(spans)]
        result[rest + index] = getattr(part, reduce)(tuple(range(2, data.ndim)))
    return result


@pytest.mark.parametrize(("kind", "reduce"), [("max", "max"), ("avg", "mean")])
def test_given_sizes(kind: str, reduce: str) -> None:
    results = evaluate(
        f"""(nn.adaptive_{kind}_pool1d(%x, output_size=[4]),
             nn.adaptive_{kind}_pool2d(%y, output_size=[4, 3]),
             nn.adaptive_{kind}_pool2d(%y, output_size=[2]),
             nn.adaptive_{kind}_pool2d(%y),
             nn.adaptive_{kind}_pool3d(%z, output_size=[2, 6, 3]),
             nn.adaptive_{kind}_pool2d(%h, output_size=[4, 3], layout="NHWC"),
             nn.adaptive_{kind}_pool1d(%x),
             nn.adaptive_{kind}_pool3d(%z))""",
        x=X1,
        y=X2,
        z=X3,
        h=axes(X2, "NCHW", "NHWC"),
    )
    close(results[0], adaptive(X1, [4], reduce))
    close(results[1], adaptive(X2, [4, 3], reduce))
    close(results[2], adaptive(X2, [2, 2], reduce))
    close(results[3], X2)
    close(results[4], adaptive(X3, [2, 6, 3], reduce))
    close(results[5], axes(adaptive(X2, [4, 3], reduce), "NCHW", "NHWC"))
    close(results[6], X1)
    close(results[7], X3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("max_pool2d(%x, pool_size=[0, 2])", "pool_size is [0, 2], not 2 numbers from 1"),
        ("max_pool2d(%x, pool_size=[2, 2], strides=[1])", "strides is [1], not 2 numbers"),
        ("avg_pool2d(%x, pool_size=[2, 2], dilation=[0, 1])", "dilation is [0, 1], not 2 numbers from 1"),
        ("avg_pool2d(%x, pool_size=[2, 2], padding=[1, 1, 1])", "padding is [1, 1, 1], not 1 or 2 or 4"),
        ("max_pool2d(%x, pool_size=[12, 2])", "a window of 12 does not fit into the 9 elements of axis H"),
        ('max_pool2d(%x, pool_size=[2, 2], layout="NCW")', "layout is 'NCW', which is no order of NCHW"),
        ("max_pool3d(%x, pool_size=[2, 2, 2])", "the data has 4 dimensions; the layout NCDHW has 5"),
        ("adaptive_max_pool2d(%x, output_size=[0, 1])", "output_size is [0, 1], not 0 or 1 or 2 numbers"),
        ("adaptive_avg_pool2d(%x, output_size=[1, 2, 3])", "output_size is [1, 2, 3], not 0 or 1 or 2"),
    ],
)
def test_wrong_attributes(call: str, message: str) -> None:
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(program(f"nn.{call}", x=X2), "test"))
    assert message in str(caught.value)


def test_python_arguments() -> None:
    arguments = {"strides": 2, "dilation": (1, 1), "padding": (1, 2), "layout": "NCHW", "out_layout": ""}
    prepare = TABLE["nn.max_pool2d"].prepare
    assert prepare is not None
    operands, attributes = prepare(data="x", pool_size=3, ceil_mode=False, **arguments)
    assert operands == ["x"]
    assert attributes["pool_size"] == (3, 3)
    assert attributes["strides"] == (2, 2)
    assert attributes["padding"] == (1, 2, 1, 2)
