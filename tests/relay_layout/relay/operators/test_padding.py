"""Padding against numpy."""

import numpy as np
import pytest
from relay_harness import evaluate, imported, program

from relay_layout.errors import RelayLayoutError
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import TABLE
from relay_layout.relay.syntax import print_text, read_text

X = np.random.default_rng(7).standard_normal((2, 3, 4)).astype("float32")
WIDTH = [(0, 0), (2, 1), (1, 3)]
PAIRS = "pad_width=[[0, 0], [2, 1], [1, 3]]"


def test_modes() -> None:
    constant, default, edge, reflect = evaluate(
        f"""(nn.pad(%x, 2.5f, {PAIRS}), nn.pad(%x, 0, {PAIRS}), nn.pad(%x, 0f, {PAIRS}, pad_mode="edge"),
             nn.pad(%x, 0f, {PAIRS}, pad_mode="reflect"))""",
        x=X,
    )
    np.testing.assert_array_equal(constant, np.pad(X, WIDTH, constant_values=2.5))
    np.testing.assert_array_equal(default, np.pad(X, WIDTH))
    np.testing.assert_array_equal(edge, np.pad(X, WIDTH, mode="edge"))
    np.testing.assert_array_equal(reflect, np.pad(X, WIDTH, mode="reflect"))


def test_values() -> None:
    """The value takes the dtype of the data, as a cast does."""
    numbers = (X * 10).astype("int8")
    lowest, truncated = evaluate(
        f"(nn.pad(%x, -3.4028235e38f, {PAIRS}), nn.pad(%n, -2.7f, {PAIRS}))", x=X, n=numbers
    )
    np.testing.assert_array_equal(lowest, np.pad(X, WIDTH, constant_values=np.finfo("float32").min))
    np.testing.assert_array_equal(truncated, np.pad(numbers, WIDTH, constant_values=-2))


def test_value_known_when_it_runs() -> None:
    value, whole = np.array(7.5, "float32"), np.array([3], "int32")
    results = evaluate(f"(nn.pad(%x, %v, {PAIRS}), nn.pad(%x, %w, {PAIRS}))", x=X, v=value, w=whole)
    np.testing.assert_array_equal(results[0], np.pad(X, WIDTH, constant_values=7.5))
    np.testing.assert_array_equal(results[1], np.pad(X, WIDTH, constant_values=3))


def test_negative_widths() -> None:
    (result,) = evaluate("(nn.pad(%x, 1f, pad_width=[[0, 0], [-1, 2], [1, -2]]),)", x=X)
    np.testing.assert_array_equal(result, np.pad(X, [(0, 0), (0, 2), (1, 0)], constant_values=1)[:, 1:, :-2])


def test_mirror_pad() -> None:
    width = "pad_width=[[0, 0], [2, 1], [1, 2]]"
    symmetric, reflect = evaluate(
        f'(nn.mirror_pad(%x, {width}), nn.mirror_pad(%x, {width}, mode="REFLECT"))', x=X
    )
    pairs = [(0, 0), (2, 1), (1, 2)]
    np.testing.assert_array_equal(symmetric, np.pad(X, pairs, mode="symmetric"))
    np.testing.assert_array_equal(reflect, np.pad(X, pairs, mode="reflect"))


def test_printed_with_its_value() -> None:
    module = imported(program("nn.pad(%x, 1, pad_width=[[0, 0], [0, 0], [1, 1]])", x=X))
    assert "nn.pad(%x, 1f" in print_text(to_tree(module))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("nn.pad(%x, 0f, pad_width=[[0, 0], [1, 1]])", "pad_width has no pair of numbers for each of 3"),
        ("nn.pad(%x, 0f, pad_width=[[0, 0], [1], [1, 1]])", "pad_width has no pair of numbers for each of 3"),
        ("nn.pad(%x, 0f, pad_width=3)", "pad_width has no pair of numbers for each of 3"),
        ("nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [0, 9000000000]])", "its numbers are from -2147483647"),
        (
            'nn.pad(%x, 0f, pad_width=[[0, 0], [0, 0], [0, 1]], pad_mode="wrap")',
            "pad_mode is 'wrap', not one of",
        ),
        (
            "nn.pad(%x, %x, pad_width=[[0, 0], [0, 0], [0, 1]])",
            "pad_value has 3 dimensions; it is one number",
        ),
        ("nn.pad(%x, 0f, pad_width=[[0, 0], [-5, 1], [0, 1]])", "negative extent"),
        (
            'nn.pad(%x, 0f, pad_width=[[0, 0], [3, 0], [0, 1]], pad_mode="reflect")',
            "pad_width is 3 on axis 1, but reflect of 3 elements gives 2 at most",
        ),
        ("nn.mirror_pad(%x, pad_width=[[0, 0], [4, 0], [0, 1]])", "SYMMETRIC of 3 elements gives 3 at most"),
        ("nn.mirror_pad(%x, pad_width=[[0, 0], [-1, 0], [0, 1]])", "its numbers are from 0 to"),
        ('nn.mirror_pad(%x, pad_width=[[0, 0], [1, 0], [0, 1]], mode="X")', "mode is 'X', not SYMMETRIC"),
    ],
)
def test_wrong_attributes(call: str, message: str) -> None:
    with pytest.raises(RelayLayoutError) as caught:
        from_tree(read_text(program(call, x=X), "test"))
    assert message in str(caught.value)


def test_python_arguments() -> None:
    prepare = TABLE["nn.pad"].prepare
    assert prepare is not None
    operands, attributes = prepare(data="x", pad_width=[[1, 2]], pad_value="v", pad_mode="edge")
    assert operands == ["x", "v"]
    assert attributes == {"pad_width": ((1, 2),), "pad_mode": "edge"}
