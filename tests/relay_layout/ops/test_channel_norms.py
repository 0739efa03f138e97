"""Instance and group norm as arithmetic: precision, and which blocks of channels groups allow."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout import convert
from relay_layout.ir import constant_array
from relay_layout.layout import Layout
from relay_layout.ops.channel_norms import ChannelNorm
from tests.relay_layout.ops.every_signature import function_of, run_functions, vector


def norm(groups: int | None) -> ChannelNorm:
    return ChannelNorm(4, "B", ("C", "D"), 1e-5, True, True, groups)


@pytest.mark.parametrize(
    ("groups", "channels", "layout", "fits"),
    [
        (None, 8, "ABCD2b2b", True),
        (4, 8, "ACDB", True),
        (4, 32, "ABCD8b", True),
        (8, 32, "ABCD8b", True),
        (4, 48, "ABCD8b", False),
        (4, 8, "ABCD2b2b", False),
    ],
)
def test_groups_and_blocks_divide_each_other(
    groups: int | None, channels: int, layout: str, fits: bool
) -> None:
    assert norm(groups).takes_blocks(Layout.parse(layout), channels) is fits


def test_a_symbolic_number_of_channels_has_no_groups_in_blocks() -> None:
    assert not norm(4).takes_blocks(Layout.parse("ABCD8b"), relax.Var("c", relax.ShapeType(ndim=1)))


def compare(groups: int | None, data: np.ndarray, tolerance: float) -> None:
    """With numpy in float64; gamma and beta are of the dtype of the data."""
    dtype = str(data.dtype)
    gamma, beta = (relax.const(constant_array(vector(4, seed)).astype(dtype)) for seed in (1, 2))

    def call(value: relax.Var) -> relax.Expr:
        if groups is None:
            return relax.op.nn.instance_norm(value, gamma, beta, channel_axis=1, axes=[2, 3])
        return relax.op.nn.group_norm(value, gamma, beta, groups, channel_axis=1, axes=[2, 3])

    ((found,),) = run_functions([function_of(call, data)], [data])
    exact = data.astype("float64").reshape(2, groups or 4, -1)
    exact = (exact - exact.mean(-1, keepdims=True)) / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    scale, shift = (constant_array(one).reshape(4, 1, 1) for one in (gamma, beta))
    assert str(found.dtype) == dtype
    np.testing.assert_allclose(found, exact.reshape(data.shape) * scale + shift, atol=tolerance)


@pytest.mark.parametrize("groups", [None, 2])
def test_a_large_mean_costs_no_digits(groups: int | None) -> None:
    data = np.random.default_rng(0).standard_normal((2, 4, 6, 8)) + 300
    compare(groups, data.astype("float32"), 2e-4)


@pytest.mark.parametrize("groups", [None, 2])
def test_halves_are_computed_in_single_precision(groups: int | None) -> None:
    compare(groups, np.random.default_rng(0).standard_normal((2, 4, 6, 8)).astype("float16"), 2e-3)


@pytest.mark.parametrize(
    ("groups", "channels"),
    [(None, 16), (1, 16), (2, 32), (4, 16), (8, 32), (16, 32), (32, 32)],
)
def test_in_blocks_it_is_what_it_was(groups: int | None, channels: int) -> None:
    rng = np.random.default_rng(1)
    data = rng.standard_normal((2, channels, 5, 3)).astype("float32")
    weight = relax.const(rng.standard_normal((channels, channels, 1, 1)).astype("float32"))
    gamma, beta = vector(channels), vector(channels, 2)

    def call(value: relax.Var) -> relax.Expr:
        value = relax.op.nn.conv2d(value, weight)
        if groups is None:
            value = relax.op.nn.instance_norm(value, gamma, beta, channel_axis=1, axes=[2, 3])
        else:
            value = relax.op.nn.group_norm(value, gamma, beta, groups, channel_axis=1, axes=[2, 3])
        return relax.op.nn.conv2d(value, weight)

    function = function_of(call, data)
    blocked = convert(tvm.IRModule({"main": function}), desired_layout="NCHW8c").module
    assert "group_norm" not in str(blocked) and "instance_norm" not in str(blocked)
    (want,), (found,) = run_functions([function, blocked["main"]], [data])
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)
