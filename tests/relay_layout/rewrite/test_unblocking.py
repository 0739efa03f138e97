"""Convolutions that were blocked before get the layouts that are asked for."""

from typing import Any

import numpy as np
import pytest
import tvm

import relay_layout
from relay_layout import relay
from relay_layout.relay import callbacks

DESIRED = (["NCHW", "default"], ["NHWC", "default"], ["NCHW8c", "default"], ["NCHW2c", "OIHW2i2o"])


def packed(array: np.ndarray, blocks: dict[int, int]) -> np.ndarray:
    """Dimensions divided into blocks, whose elements come last in the order of ``blocks``."""
    shape: list[int] = []
    outer, inner = [], {}
    for axis, extent in enumerate(array.shape):
        outer.append(len(shape))
        shape.append(extent // blocks.get(axis, 1))
        if axis in blocks:
            inner[axis] = len(shape)
            shape.append(blocks[axis])
    return array.reshape(shape).transpose(*outer, *(inner[axis] for axis in blocks))


def blocked(groups: int) -> tuple[tvm.IRModule, list[np.ndarray], np.ndarray]:
    """Two convolutions in NCHW4c with a sum, their inputs, and what they compute, in blocks of 4."""
    random = np.random.default_rng(groups)
    x = random.standard_normal((2, 16, 7, 6)).astype("float32")
    weights = [random.standard_normal((16, 16 // groups, 3, 3)).astype("float32") for _ in range(2)]
    data = relay.var("x", shape=x.shape)
    plain, inputs = data, [data]
    for place, weight in enumerate(weights):
        inputs.append(relay.var(f"w{place}", shape=weight.shape))
        plain = relay.nn.relu(relay.nn.conv2d(plain, inputs[-1], padding=(1, 1), groups=groups))
    call = relay.create_executor("graph", tvm.IRModule.from_expr(relay.Function(inputs, plain + data)))
    expected = packed(call.evaluate()(x, *weights).numpy(), {1: 4})
    depthwise = groups == 16
    arrays = [packed(x, {1: 4})]
    for weight in weights:
        arrays.append(packed(weight, {0: 4} if depthwise else {1: 4, 0: 4}))
    names = {"data_layout": "NCHW4c", "kernel_layout": "OIHW4o" if depthwise else "OIHW4i4o"}
    inputs = [relay.var(f"p{place}", shape=array.shape) for place, array in enumerate(arrays)]
    net = inputs[0]
    for variable in inputs[1:]:
        net = relay.nn.conv2d(
            net, variable, padding=(1, 1), groups=groups, channels=16, kernel_size=(3, 3), **names
        )
        net = relay.nn.relu(net)
    return tvm.IRModule.from_expr(relay.Function(inputs, net + inputs[0])), arrays, expected


@pytest.mark.parametrize("groups", [1, 16])
@pytest.mark.parametrize("layouts", DESIRED, ids=lambda layouts: layouts[0])
def test_another_layout_is_taken(groups: int, layouts: list[str]) -> None:
    module, arrays, expected = blocked(groups)
    if groups > 1 and layouts[0] != "NCHW" and layouts[0] != "NHWC":
        layouts = [layouts[0], f"OIHW1i{layouts[0][4]}o"]
    converted = relay.transform.ConvertLayout({"nn.conv2d": layouts})(module)
    text = relay.astext(converted)
    assert "NCHW4c" not in text and text.count("nn.conv2d(") == 2
    assert layouts[0] == "NCHW" or text.count(f'data_layout="{layouts[0]}"') == 2
    found = relay.create_executor("graph", converted).evaluate()(*arrays).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_no_transform_is_left_between_convolutions() -> None:
    converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(blocked(1)[0])
    between, _ = relay.astext(converted).split("nn.conv2d(")[1:]
    (moved,) = [line for line in between.splitlines() if "layout_transform(" in line]
    assert "layout_transform(%p2" in moved and "transpose(" not in between


def test_what_is_there_already_stays() -> None:
    module = blocked(1)[0]
    for desired in ({"nn.conv2d": ["NCHW4c", "OIHW4i4o"]}, {"nn.conv3d": ["NDHWC", "default"]}):
        converted = relay.transform.ConvertLayout(desired)(module)
        assert relay.astext(converted) == relay.astext(module)
    with relay.transform.LayoutConfig(skip_layers=[0]):
        converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module)
    assert relay.astext(converted).count("NCHW4c") == 2


def test_a_layout_for_all_is_taken() -> None:
    module, _, _ = blocked(1)
    report = relay_layout.convert(module, desired_layout="NHWC").report
    assert set(report["layouts"].values()) == {"NHWC->NHWC"}


def test_callbacks_are_asked_as_for_plain_convolutions() -> None:
    module, arrays, expected = blocked(1)
    seen: list[Any] = []

    @callbacks.register_convert_op_layout("nn.conv2d", level=11)
    def convert(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> Any:
        seen.append((attrs["data_layout"], attrs["kernel_layout"], tinfos[0].shape))
        return relay.nn.conv2d(*inputs, **{**attrs, "data_layout": desired[0], "kernel_layout": "HWIO"})

    try:
        converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module)
    finally:
        callbacks.reset("nn.conv2d")
    assert seen == [("NCHW", "OIHW", (2, 16, 7, 6))] * 2
    found = relay.create_executor("graph", converted).evaluate()(*arrays).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW", "NCHW4c"])
@pytest.mark.parametrize(
    ("pooling", "attributes"),
    [
        ("nn.max_pool2d", "pool_size=[2, 2], strides=[2, 2], "),
        ("nn.avg_pool2d", "pool_size=[3, 3], padding=[1, 1, 1, 1], count_include_pad=True, "),
        ("nn.global_avg_pool2d", ""),
    ],
)
def test_poolings(pooling: str, attributes: str, layout: str) -> None:
    module = relay.fromtext(
        f"""#[version = "0.0.5"]
        def @main(%x: Tensor[(1, 2, 8, 6, 8), float32]) {{
          {pooling}(%x, {attributes}layout="NCHW8c")
        }}"""
    )
    converted = relay.transform.ConvertLayout({pooling: [layout]})(module)
    text = relay.astext(converted)
    assert (f'layout="{layout}"' in text or layout == "NCHW") and 'layout="NCHW8c")' not in text
    x = np.random.default_rng(0).standard_normal((1, 2, 8, 6, 8)).astype("float32")
    before, after = (relay.create_executor("graph", one).evaluate()(x).numpy() for one in (module, converted))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layouts", [["NHWC", "default"], ["NCHW", "default"], ["NCHW4c", "OIHW4i4o"]])
def test_quantized_convolutions(layouts: list[str]) -> None:
    module = relay.fromtext(
        """#[version = "0.0.5"]
        def @main(%x: Tensor[(1, 2, 5, 6, 8), uint8], %w: Tensor[(1, 2, 3, 3, 8, 8), int8]) {
          qnn.conv2d(%x, %w, 4, 0, 0.5f, 0.25f, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3],
                     data_layout="NCHW8c", kernel_layout="OIHW8i8o", out_dtype="int32")
        }"""
    )
    converted = relay.transform.ConvertLayout({"qnn.conv2d": layouts})(module)
    assert "OIHW8i8o" not in relay.astext(converted)
    random = np.random.default_rng(0)
    x = random.integers(0, 255, (1, 2, 5, 6, 8)).astype("uint8")
    w = random.integers(-128, 127, (1, 2, 3, 3, 8, 8)).astype("int8")
    before, after = (
        relay.create_executor("graph", one).evaluate()(x, w).numpy() for one in (module, converted)
    )
    np.testing.assert_array_equal(after, before)
