"""Batch norm becomes part of the weights before it, or a product and a sum."""

import numpy as np
import pytest
from tvm import relax

from relay_layout.rewrite.canonicalize import canonicalize
from tests.module_operators import operators
from tests.relay_layout.rewrite.small_modules import module_of, random, run


def batch_norm(
    builder: relax.BlockBuilder, data: relax.Expr, channels: int, axis: int = 1, **options: object
):
    statistics = [random(channels, seed=seed, positive=seed == 4) for seed in (1, 2, 3, 4)]
    return builder.emit(relax.TupleGetItem(
        builder.emit(relax.op.nn.batch_norm(data, *statistics, axis=axis, training=False, **options)), 0
    ))  # fmt: skip


def conv_bn(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    return batch_norm(builder, builder.emit(relax.op.nn.conv2d(data, random(4, 3, 3, 3, seed=0))), 4)


def conv_bias_bn(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    convolution = builder.emit(relax.op.nn.conv2d(data, random(4, 3, 3, 3, seed=0)))
    return batch_norm(builder, builder.emit(relax.op.add(convolution, random(1, 4, 1, 1, seed=9))), 4)


def bn_first(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    return builder.emit(relax.op.nn.conv2d(batch_norm(builder, data, 3), random(4, 3, 3, 3, seed=0)))


def conv3d_bn(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    return batch_norm(builder, builder.emit(relax.op.nn.conv3d(data, random(4, 3, 3, 3, 3, seed=0))), 4)


def transposed_bn(builder: relax.BlockBuilder, data: relax.Expr, groups: int = 1) -> relax.Expr:
    weight = random(4, 6 // groups, 3, 3, seed=0)
    return batch_norm(builder, builder.emit(relax.op.nn.conv2d_transpose(data, weight, groups=groups)), 6)


@pytest.mark.parametrize(
    ("emit", "shape", "convolution"),
    [
        (conv3d_bn, (2, 3, 5, 4, 3), "nn.conv3d"),
        (transposed_bn, (2, 4, 5, 6), "nn.conv2d_transpose"),
    ],
)
def test_batch_norm_becomes_part_of_other_convolutions(emit, shape, convolution) -> None:
    module = module_of(emit, shape)
    folded = canonicalize(module)
    assert operators(folded) == [convolution, "add"]
    image = np.random.default_rng(6).standard_normal(shape, dtype="float32")
    np.testing.assert_allclose(run(folded, image), run(module, image), 1e-4, 1e-4)


def test_batch_norm_is_no_part_of_a_kernel_that_groups_share() -> None:
    """Its axis O has the channels of one group, which the batch norm scales differently in each."""
    module = module_of(lambda builder, data: transposed_bn(builder, data, 2), (2, 4, 5, 6))
    assert operators(canonicalize(module)) == ["nn.conv2d_transpose", "multiply", "add"]


def shared_convolution(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    convolution = builder.emit(relax.op.nn.conv2d(data, random(4, 3, 3, 3, seed=0)))
    return builder.emit(relax.op.add(batch_norm(builder, convolution, 4), convolution))


def without_scale(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    convolution = builder.emit(relax.op.nn.conv2d(data, random(4, 3, 3, 3, seed=0)))
    return batch_norm(builder, convolution, 4, scale=False, center=False)


def channels_last(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    convolution = builder.emit(
        relax.op.nn.conv2d(data, random(3, 3, 6, 4, seed=0), data_layout="NHWC", kernel_layout="HWIO")
    )
    return batch_norm(builder, convolution, 4, axis=3)


def wrong_axis(builder: relax.BlockBuilder, data: relax.Expr) -> relax.Expr:
    """Normalised over height after a convolution: valid, and nothing to fold into the weights."""
    convolution = builder.emit(relax.op.nn.conv2d(data, random(4, 3, 3, 3, seed=0)))
    return batch_norm(builder, convolution, 4, axis=2)


CASES = {
    "conv_bn": (conv_bn, ["nn.conv2d", "add"]),
    "conv_bias_bn": (conv_bias_bn, ["nn.conv2d", "add"]),
    "bn_first": (bn_first, ["multiply", "add", "nn.conv2d"]),
    "shared_convolution": (shared_convolution, ["nn.conv2d", "multiply", "add", "add"]),
    "without_scale": (without_scale, ["nn.conv2d", "add"]),
    "channels_last": (channels_last, ["nn.conv2d", "add"]),
    "wrong_axis": (wrong_axis, ["nn.conv2d", "multiply", "add"]),
}


@pytest.mark.parametrize("name", CASES)
def test_operators_left_and_numbers_kept(name: str) -> None:
    emit, expected = CASES[name]
    module = module_of(emit)
    simplified = canonicalize(module)
    assert operators(simplified) == expected
    image = np.random.default_rng(5).standard_normal((2, 3, 6, 6), dtype="float32")
    reference = run(module, image)
    assert np.abs(run(simplified, image) - reference).max() < 1e-5 * np.abs(reference).max()
