"""Unknown extents of operands that have to be equal."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from run_time_harness import computed

from relay_layout import relay
from relay_layout.errors import InputError, ModelError

RANDOM = np.random.default_rng(0)
OPEN = relay.Any()


def _input(name: str, *shape: Any, dtype: str = "float32") -> Any:
    return relay.var(name, shape=shape, dtype=dtype)


def _data(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype("float32")


ROWS = _input("x", OPEN, 3), _input("y", OPEN, 3)


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        (ROWS[0] + ROWS[1], (None, 3)),
        (relay.less(*ROWS), (None, 3)),
        (relay.where(relay.less(*ROWS), *ROWS), (None, 3)),
        (relay.power(_input("x", 5, OPEN, 5), _input("y", OPEN, 1)), (5, None, 5)),
        (relay.concatenate(list(ROWS), axis=-1), (None, 6)),
        (relay.concatenate(list(ROWS), axis=0), (None, 3)),
        (relay.stack(list(ROWS), axis=0), (2, None, 3)),
        (relay.nn.bias_add(_input("x", OPEN, OPEN), _input("y", OPEN)), (None, None)),
        (relay.nn.batch_matmul(_input("x", OPEN, 3, OPEN), _input("y", OPEN, 5, OPEN)), (None, 3, 5)),
        (relay.nn.dense(_input("x", OPEN, OPEN), _input("y", 4, OPEN)), (None, 4)),
    ],
    ids=["add", "less", "where", "power", "columns", "rows", "stack", "bias", "products", "dense"],
)
def test_types(expression: Any, shape: tuple[int | None, ...]) -> None:
    """A result's extents are those that operands have in common."""
    assert expression.checked_type.shape == shape


CASES: list[tuple[Any, Callable[..., np.ndarray], tuple[int, ...], tuple[int, ...]]] = [
    (
        relay.concatenate([ROWS[0] + ROWS[1], ROWS[0] * ROWS[1]], axis=1),
        lambda x, y: np.concatenate([x + y, x * y], 1),
        (4, 3),
        (4, 3),
    ),
    (
        relay.nn.batch_matmul(_input("x", OPEN, OPEN, 4), _input("y", OPEN, 5, OPEN)),
        lambda x, y: x @ y.transpose(0, 2, 1),
        (2, 3, 4),
        (2, 5, 4),
    ),
    (_input("x", OPEN, 3) - _input("y", 4, 3), lambda x, y: x - y, (4, 3), (4, 3)),
    (relay.nn.bias_add(_input("x", 2, OPEN), _input("y", 1)), lambda x, y: x + y, (2, 3), (1,)),
]


@pytest.mark.parametrize(
    ("expression", "expected", "left", "right"), CASES, ids=["rows", "products", "number", "bias of one"]
)
def test_values(expression: Any, expected: Any, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """What numpy computes."""
    x, y = _data(*left), _data(*right)
    (result,) = computed(expression, x=x, y=y)
    np.testing.assert_allclose(result, expected(x, y), rtol=1e-5, atol=1e-5)


def test_inputs_that_differ() -> None:
    """One of unknown extents that are paired is not repeated."""
    with pytest.raises(InputError, match=r"input 'y': dimension 0 \('x_0'\) is 1, but input 'x' has x_0 = 4"):
        computed(ROWS[0] + ROWS[1], x=_data(4, 3), y=_data(1, 3))


def test_input_that_is_not_the_number() -> None:
    """Nor is one beside a number."""
    with pytest.raises(InputError, match=r"x\.shape\[0\] == 4, got x\.shape\[0\] = 7"):
        computed(_input("x", OPEN, 3) - _input("y", 4, 3), x=_data(7, 3), y=_data(4, 3))


def test_one_extent_is_not_two_numbers() -> None:
    """The second is refused when the function is made."""
    x = _input("x", OPEN)
    both = relay.concatenate([x + _input("y", 4), x + _input("z", 5)], axis=0)
    with pytest.raises(ModelError, match=r"add of \(\?\) float32, \(5\) float32"):
        tvm.IRModule.from_expr(both)


def test_printed() -> None:
    """A module prints without the checks."""
    text = relay.astext(tvm.IRModule.from_expr(relay.Function(list(ROWS), ROWS[0] + ROWS[1])))
    assert "add(%x, %y)" in text
    assert relay.astext(relay.fromtext(text)) == text
