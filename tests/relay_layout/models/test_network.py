"""The description language: shapes, parameters and its error messages."""

import numpy as np
import pytest

from relay_layout.errors import ModelError
from relay_layout.models import Network, NetworkBuilder, Value


def _small(seed: int = 0) -> Network:
    builder = NetworkBuilder("small", seed=seed)
    value = builder.convolution(builder.input("input", ("N", 3, 8, 8)), "conv", 4, 3, bias=True)
    value = builder.batch_normalization(value, "bn")
    return builder.build({"output": builder.relu(value, "relu")})


def _image(height: int, width: int, channels: int = 4) -> tuple[NetworkBuilder, Value]:
    builder = NetworkBuilder("probe")
    return builder, builder.input("input", (1, channels, height, width))


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"kernel": 3}, (1, 8, 7, 11)),
        ({"kernel": (1, 3), "padding": (0, 1)}, (1, 8, 9, 13)),
        ({"kernel": 3, "padding": (1, 2, 0, 3)}, (1, 8, 8, 16)),
        ({"kernel": 3, "strides": (2, 3), "padding": 1}, (1, 8, 5, 5)),
        ({"kernel": 3, "dilation": (2, 1)}, (1, 8, 5, 11)),
        ({"kernel": 1, "groups": 2}, (1, 8, 9, 13)),
    ],
)
def test_convolution_shape(options: dict, shape: tuple) -> None:
    builder, data = _image(9, 13)
    assert builder.convolution(data, "conv", 8, **options).shape == shape


@pytest.mark.parametrize(
    ("extent", "padding", "ceil_mode", "expected"), [(8, 0, False, 3), (8, 0, True, 4), (9, 0, True, 4)]
)
def test_max_pool_shape(extent: int, padding: int, ceil_mode: bool, expected: int) -> None:
    builder, data = _image(extent, extent)
    pooled = builder.max_pool(data, "pool", 3, strides=2, padding=padding, ceil_mode=ceil_mode)
    assert pooled.shape == (1, 4, expected, expected)


@pytest.mark.parametrize(
    ("options", "shape"),
    [
        ({"kernel": 2, "strides": 2}, (1, 8, 18, 26)),
        ({"kernel": (3, 2), "strides": (2, 1)}, (1, 8, 19, 14)),
        ({"kernel": 3, "padding": (1, 0, 2, 1)}, (1, 8, 8, 14)),
    ],
)
def test_transposed_convolution_shape(options: dict, shape: tuple) -> None:
    builder, data = _image(9, 13)
    assert builder.transposed_convolution(data, "spread", 8, **options).shape == shape


def test_transposed_convolution_keeps_the_variance() -> None:
    builder, data = _image(8, 8, channels=64)
    spread = builder.transposed_convolution(data, "spread", 32, 4, strides=2, gain=1.0)
    (weight,) = builder.build({"output": spread}).parameters()
    assert weight.shape == (64, 32, 4, 4)
    # 64 channels by a quarter of the 16 positions.
    assert weight.values().std() == pytest.approx((64 * 4) ** -0.5, rel=0.02)


def test_average_pool_shape() -> None:
    builder, data = _image(9, 13)
    assert builder.average_pool(data, "pool", (3, 2), strides=2, padding=(1, 0)).shape == (1, 4, 5, 6)


def test_resize_slice_and_transpose_shapes() -> None:
    builder, data = _image(9, 13)
    assert builder.resize(data, "resize", 3, "linear").shape == (1, 4, 27, 39)
    assert builder.slice(data, "slice", 1, 3).shape == (1, 2, 9, 13)
    last = builder.transpose(data, "last", (0, 2, 3, 1))
    assert last.shape == (1, 9, 13, 4)
    assert builder.pixelwise_dense(last, "dense", 6).shape == (1, 9, 13, 6)


def test_grouped_weight_has_the_channels_of_one_group() -> None:
    builder, data = _image(8, 8, channels=12)
    network = builder.build({"output": builder.convolution(data, "conv", 6, 3, groups=3)})
    assert [parameter.shape for parameter in network.parameters()] == [(6, 4, 3, 3)]


def test_symbolic_batch_goes_through() -> None:
    builder = NetworkBuilder("probe")
    data = builder.input("input", ("N", 3, 8, 8))
    value = builder.max_pool(builder.convolution(data, "conv", 4, 1), "pool", 2, strides=2)
    value = builder.flatten(builder.concatenate([value, value], "concat"), "flatten")
    assert builder.dense(value, "dense", 5).shape == ("N", 5)


def test_output_is_renamed_where_it_is_read_too() -> None:
    builder, data = _image(8, 8)
    first = builder.relu(data, "first")
    second = builder.relu(first, "second")
    network = builder.build({"early": first, "late": second})
    assert [node.output.name for node in network.nodes] == ["early", "late"]
    assert network.nodes[1].inputs == ("early",)
    assert [node.name for node in network.nodes] == ["first", "second"]


def test_parameters_are_reproducible_distinct_and_not_neutral() -> None:
    first, again, other = ({p.name: p.values() for p in _small(seed).parameters()} for seed in (0, 0, 1))
    assert list(first) == [
        "conv.weight",
        "conv.bias",
        "bn.weight",
        "bn.bias",
        "bn.running_mean",
        "bn.running_var",
    ]
    for name, values in first.items():
        assert values.dtype == np.float32
        assert np.array_equal(values, again[name])
        assert not np.array_equal(values, other[name])
        assert np.ptp(values) > 0
    assert not np.array_equal(first["bn.bias"], first["bn.running_mean"])
    assert first["bn.running_var"].min() >= 0.5 and first["bn.running_var"].max() <= 2.0


def test_parameter_count_leaves_running_statistics_out() -> None:
    assert _small().parameter_count() == 4 * 3 * 9 + 4 + 4 + 4


def test_with_parameters_replaces_all_values_and_keeps_the_rest() -> None:
    network = _small()
    values = {
        p.name: np.full(p.shape, index, dtype=np.float64) for index, p in enumerate(network.parameters())
    }
    given = network.with_parameters(values)
    for index, parameter in enumerate(given.parameters()):
        assert parameter.values().dtype == np.float32
        assert np.all(parameter.values() == index)
    assert [node.output for node in given.nodes] == [node.output for node in network.nodes]
    assert np.ptp(next(network.parameters()).values()) > 0


def test_with_parameters_refuses_what_does_not_fit() -> None:
    network = _small()
    values = {p.name: p.values() for p in network.parameters()}
    with pytest.raises(ModelError, match=r"^network 'small': no values given for parameter 'bn.bias'$"):
        network.with_parameters({name: array for name, array in values.items() if name != "bn.bias"})
    with pytest.raises(ModelError, match=r"'conv.bias' has shape \(4,\), the values given have \(5,\)$"):
        network.with_parameters(values | {"conv.bias": np.zeros(5, dtype=np.float32)})
    with pytest.raises(ModelError, match=r"^network 'small' has no parameter 'fc.bias'$"):
        network.with_parameters(values | {"fc.bias": np.zeros(5, dtype=np.float32)})


def test_misfits_name_network_and_node() -> None:
    builder, data = _image(8, 9)
    with pytest.raises(
        ModelError, match=r"^network 'probe', node 'a': a window reaching 9 does not fit an ex"
    ):
        builder.convolution(data, "a", 8, 5, dilation=2)
    with pytest.raises(
        ModelError, match=r"^network 'probe', node 'b': 3 groups do not divide 4 input and 8 output channels$"
    ):
        builder.convolution(data, "b", 8, 1, groups=3)
    wide = builder.convolution(data, "wide", 8, 1)
    with pytest.raises(ModelError, match=r"node 'c': cannot add \[1,4,8,9\] and \[1,8,8,9\]$"):
        builder.add(data, wide, "c")
    narrow = builder.max_pool(data, "narrow", 2, strides=2)
    with pytest.raises(ModelError, match=r"node 'd': cannot concatenate \[1,4,8,9\] and \[1,4,4,4\] along"):
        builder.concatenate([data, narrow], "d")
    with pytest.raises(ModelError, match=r"node 'e': a dense layer needs \[N,K\], not \[1,4,8,9\]$"):
        builder.dense(data, "e", 10)
    with pytest.raises(ModelError, match=r"node 'f': an image operation needs \[N,C,H,W\], not \[1,288\]$"):
        builder.global_average_pool(builder.flatten(data, "flat"), "f")
    with pytest.raises(
        ModelError, match=r"node 'g': with ceil_mode the last window starts past the extent of 9"
    ):
        builder.max_pool(data, "g", 2, strides=2, padding=1, ceil_mode=True)
    with pytest.raises(ModelError, match=r"^network 'probe': the name 'wide' is taken$"):
        builder.relu(data, "wide")
    with pytest.raises(ModelError, match=r"^network 'probe': output 'y' is not a value of its own made by"):
        builder.build({"y": data})


def test_misfits_of_newer_operations_name_network_and_node() -> None:
    builder, data = _image(8, 9)
    with pytest.raises(
        ModelError, match=r"^network 'probe', node 'a': 4 channels have no slice from 2 to 5$"
    ):
        builder.slice(data, "a", 2, 5)
    with pytest.raises(ModelError, match=r"node 'b': \(0, 2, 1\) does not order the axes of \[1,4,8,9\]$"):
        builder.transpose(data, "b", (0, 2, 1))
    wide = builder.convolution(data, "wide", 8, 1)
    with pytest.raises(ModelError, match=r"node 'c': cannot multiply \[1,4,8,9\] by \[1,8,8,9\]$"):
        builder.multiply(data, wide, "c")
    flat = builder.flatten(data, "flat")
    with pytest.raises(
        ModelError, match=r"node 'd': a pixelwise dense layer needs \[N,H,W,K\], not \[1,288\]$"
    ):
        builder.pixelwise_dense(flat, "d", 5)
    with pytest.raises(
        ModelError, match=r"node 'e': a padding of \(5, 0, 5, 0\) leaves an image of 0 by 11$"
    ):
        builder.transposed_convolution(data, "e", 8, 3, padding=(5, 0))
