"""Networks of floats become networks of integers that compute nearly the same."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout import relay
from relay_layout.errors import ModelError
from relay_layout.ir import bindings_of, dtype_of, operator_name
from relay_layout.quantization import to_integers
from relay_layout.relay.quantize import qconfig, quantize

SHAPE = (2, 3, 19, 17)


@cache
def network() -> tuple[tvm.IRModule, dict[str, np.ndarray]]:
    """Three convolutions, one of them of groups, a sum, a pool, and a dense layer."""
    random = np.random.default_rng(1)
    params = {
        name: (random.standard_normal(shape) * scale).astype("float32")
        for name, shape, scale in (
            ("w0", (12, 3, 3, 3), 0.3),
            ("w1", (12, 12, 3, 3), 0.15),
            ("w2", (12, 1, 3, 3), 0.4),
            ("w3", (5, 12), 0.4),
            ("bias", (12,), 0.2),
        )
    }
    weights = {name: relay.var(name, shape=array.shape) for name, array in params.items()}
    data = relay.var("data", shape=SHAPE)
    first = relay.nn.conv2d(data, weights["w0"], padding=(1, 1), strides=(2, 2))
    first = relay.nn.relu(relay.nn.bias_add(first, weights["bias"]))
    pooled = relay.nn.max_pool2d(first, (3, 3), padding=(1, 1))
    second = relay.nn.relu(relay.nn.conv2d(pooled, weights["w1"], padding=(1, 1)) + pooled)
    third = relay.nn.conv2d(second, weights["w2"], groups=12)
    net = relay.nn.dense(relay.nn.batch_flatten(relay.nn.global_avg_pool2d(third)), weights["w3"])
    return tvm.IRModule.from_expr(net), params


@cache
def dataset() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(2)
    return [{"data": random.standard_normal(SHAPE).astype("float32")} for _ in range(5)]


def computed(module: tvm.IRModule, params: dict[str, np.ndarray] | None = None) -> np.ndarray:
    call = relay.create_executor("graph", module, params=params).evaluate()
    return np.concatenate([call(entry["data"]).numpy() for entry in dataset()])


@cache
def exact() -> np.ndarray:
    return computed(*network())


def products(module: tvm.IRModule) -> Counter[tuple[str, str]]:
    """What is multiplied once operators are integers' own: operators and the dtypes of their data."""
    calls = [binding.value for binding in bindings_of(to_integers(module)["main"])]
    names = ("nn.conv2d", "matmul")
    return Counter(
        (operator_name(call), dtype_of(call.args[0])) for call in calls if operator_name(call) in names
    )


def error(found: np.ndarray) -> float:
    return float(np.abs(found - exact()).max() / np.abs(exact()).max())


def test_a_quantized_network_prints_as_relay() -> None:
    module, params = network()
    with qconfig(global_scale=12.0, skip_conv_layers=[]):
        quantized = quantize(module, params)
    text = relay.astext(quantized)
    assert text.count("qnn.quantize(") >= 4 and text.count("qnn.dequantize(") >= 4
    again = relay.fromtext(text)
    assert relay.astext(again) == text
    # Halves are rounded away from zero instead of to even.
    np.testing.assert_allclose(computed(again), computed(quantized), atol=0.05 * np.abs(exact()).max())


CONFIGURATIONS: list[tuple[dict[str, Any], dict[tuple[str, str], int], float]] = [
    (
        {"global_scale": 12.0},
        {("nn.conv2d", "float32"): 1, ("nn.conv2d", "uint8"): 2, ("matmul", "float32"): 1},
        0.05,
    ),
    (
        {"global_scale": 12.0, "weight_scale": "max", "skip_conv_layers": [1, 7]},
        {("nn.conv2d", "float32"): 1, ("nn.conv2d", "uint8"): 2, ("matmul", "float32"): 1},
        0.04,
    ),
    (
        {
            "calibrate_mode": "kl_divergence",
            "weight_scale": "max",
            "skip_conv_layers": [],
            "skip_dense_layer": False,
        },
        {("nn.conv2d", "uint8"): 3, ("matmul", "uint8"): 1},
        0.03,
    ),
    (
        {
            "calibrate_mode": "kl_divergence",
            "skip_conv_layers": None,
            "debug_enabled_ops": ["nn.dense"],
            "skip_dense_layer": False,
        },
        {("nn.conv2d", "float32"): 3, ("matmul", "uint8"): 1},
        0.03,
    ),
]


@pytest.mark.parametrize(("options", "expected", "bound"), CONFIGURATIONS)
def test_layers_become_integers_and_compute_nearly_the_same(
    options: dict[str, Any], expected: dict[tuple[str, str], int], bound: float
) -> None:
    with qconfig(**options):
        module = quantize(*network(), dataset=dataset())
    assert products(module) == expected
    assert 1e-4 < error(computed(module)) < bound


def test_fewer_bits_lose_more() -> None:
    errors = []
    for bits in (8, 4):
        options = {
            "calibrate_mode": "kl_divergence",
            "weight_scale": "max",
            "nbit_weight": bits,
            "nbit_input": bits,
        }
        with qconfig(**options):
            errors.append(error(computed(quantize(*network(), dataset=dataset()))))
    assert 4 * errors[0] < errors[1] < 0.5


def test_a_simulation_computes_what_integers_do() -> None:
    options = {"calibrate_mode": "kl_divergence", "weight_scale": "max", "skip_conv_layers": []}
    with qconfig(**options):
        integers = computed(quantize(*network(), dataset=dataset()))
    with qconfig(**options, do_simulation=True):
        module = quantize(*network(), dataset=dataset())
    assert products(module) == {("nn.conv2d", "float32"): 3, ("matmul", "float32"): 1}
    simulated = computed(module)
    assert np.abs(simulated - integers).max() < 0.2 * np.abs(integers - exact()).max() + 1e-3


def test_global_scale_is_relays() -> None:
    data, weight = relay.var("data", shape=(1, 2, 5, 5)), relay.const(np.ones((4, 2, 1, 1), "float32"))
    with qconfig(skip_conv_layers=[], global_scale=8.0):
        module = quantize(tvm.IRModule.from_expr(relay.nn.conv2d(data, weight)))
    scales = [
        float(binding.value.args[1].value.numpy())
        for binding in bindings_of(module["main"])
        if operator_name(binding.value) == "quantize"
    ]
    assert scales == [8.0 / 128]


def test_inputs_are_given_by_variables_and_as_tensors() -> None:
    entries = [{relay.var("data", shape=SHAPE): tvm.runtime.tensor(dataset()[0]["data"])}]
    with qconfig(calibrate_mode="kl_divergence", skip_conv_layers=[0, 1]):
        by_variable = quantize(*network(), dataset=iter(entries))
        by_name = quantize(*network(), dataset=dataset()[:1])
    tvm.ir.assert_structural_equal(by_variable, by_name)


@pytest.mark.parametrize(
    ("options", "entries", "message"),
    [
        ({}, None, "takes a dataset, dictionaries"),
        ({}, [], "the dataset is empty"),
        ({}, [{"image": np.zeros(1)}], "entry 0 of the dataset has no input 'data'"),
        (
            {},
            [{"data": np.zeros(SHAPE, "float32")}, {"data": np.zeros((1, 2), "float32")}],
            "entry 1 of the dataset: ",
        ),
        ({}, [{"data": np.full(SHAPE, np.nan, "float32")}], "no finite number"),
    ],
)
def test_datasets_that_do_not_fit(options: dict[str, Any], entries: Any, message: str) -> None:
    with (
        qconfig(calibrate_mode="kl_divergence", **options),
        pytest.raises(ModelError, match=f"^quantize: .*{message}"),
    ):
        quantize(*network(), dataset=entries)


def test_weights_have_to_be_known() -> None:
    with pytest.raises(
        ModelError, match=r"^quantize: the weight of .* \(nn.conv2d\) is no constant; give params"
    ):
        quantize(network()[0])


def test_prerequisite_optimize_leaves_convolutions_alone() -> None:
    data, weight = relay.var("data", shape=(1, 2, 5, 5)), relay.var("weight", shape=(4, 2, 3, 3))
    statistics = [relay.var(name, shape=(4,)) for name in ("gamma", "beta", "mean", "variance")]
    net = relay.nn.batch_norm(relay.nn.conv2d(data, weight), *statistics)[0]
    params = {
        name: np.full(shape, 0.5, "float32")
        for name, shape in [("weight", (4, 2, 3, 3)), *[(value.name, (4,)) for value in statistics]]
    }
    module = relay.quantize.prerequisite_optimize(tvm.IRModule.from_expr(net), params)
    assert relay.analysis.list_op_freqs(module) == {"nn.conv2d": 1, "add": 1}
    assert isinstance(module["main"], relax.Function)
