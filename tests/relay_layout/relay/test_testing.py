"""Networks with random weights, and shorthands for tests."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout import relay
from relay_layout.errors import LayoutError, ModelError
from relay_layout.relay import testing
from relay_layout.relay.callbacks import ALTER
from relay_layout.relay.testing.init import Constant, Xavier


@pytest.mark.parametrize(
    ("get", "count", "result"),
    [
        (lambda: testing.resnet.get_workload(num_layers=18), 11_699_892, (1, 1000)),
        (lambda: testing.resnet.get_workload(2, 10, 50, (64, 64, 3), "NHWC"), 23_566_550, (2, 10)),
        (lambda: testing.resnet.get_workload(1, 10, 20, (3, 32, 32)), 273_926, (1, 10)),
        (lambda: testing.resnet.get_workload(1, 10, 164, (3, 32, 32)), 1_727_494, (1, 10)),
        # Four stages behind the first convolution of small images, of 3x3, without norm and pooling.
        (lambda: testing.resnet.get_workload(1, 1000, 18, (3, 32, 32)), 11_691_956, (1, 1000)),
        (lambda: testing.mobilenet.get_workload(), 4_253_864, (1, 1000)),
        (lambda: testing.mobilenet.get_workload(1, 10, (64, 64, 3), layout="NHWC"), 3_239_114, (1, 10)),
        (lambda: testing.squeezenet.get_workload(), 1_248_424, (1, 1000)),
        (lambda: testing.squeezenet.get_workload(version="1.1"), 1_235_496, (1, 1000)),
        (lambda: testing.vgg.get_workload(1, image_shape=(3, 32, 32)), 32_200_040, (1, 1000)),
        (lambda: testing.mlp.get_workload(2), 109_386, (2, 10)),
        (lambda: testing.dcgan.get_workload(2, ngf=8), 146_016, (2, 3, 64, 64)),
        (lambda: testing.dcgan.get_workload(1, ngf=8, layout="NHWC"), 146_016, (1, 64, 64, 3)),
        (lambda: testing.densenet.get_workload(121, 10, 1), 3_060_938, (1, 10)),
        (lambda: testing.densenet.get_workload(169, batch_size=1), 5_363_899, (1, 1000)),
        (lambda: testing.inception_v3.get_workload(), 23_869_000, (1, 1000)),
    ],
)
def test_networks_have_their_sizes(get, count, result):
    module, params = get()
    assert sum(int(np.prod(value.shape)) for value in params.values()) == count
    assert [str(parameter.name) for parameter in module["main"].params] == ["data", *params]
    assert tuple(module["main"].ret_ty.shape.values) == result


@pytest.mark.parametrize(
    ("name", "get"),
    [
        ("resnet18", lambda: testing.resnet.get_net(1, 1000, 18)),
        ("mobilenet", testing.mobilenet.mobile_net),
        ("dcgan", lambda: testing.dcgan.get_net(1)),
        ("squeezenet_1_1", lambda: testing.squeezenet.get_net(1, (3, 224, 224), 1000, "1.1", "float32")),
    ],
)
def test_networks_are_those_of_relay(name, get):
    path = Path(__file__).parents[2] / "data" / "relay_cases" / "models" / f"{name}.json"
    recorded = relay.parse(json.loads(path.read_text())["before_text"], name)
    tvm.ir.assert_structural_equal(tvm.IRModule.from_expr(get()), recorded)
    names = [str(parameter.name) for parameter in get().__tvm_ffi_object__().params]
    assert names == [str(parameter.name) for parameter in recorded["main"].params]


@pytest.mark.parametrize(
    ("get", "message"),
    [
        (
            lambda: testing.resnet.get_net(1, 10, 19),
            "no residual network of 19 layers for images 224 high",
        ),
        (lambda: testing.resnet.get_net(1, 10, 18, layout="CHWN"), "layout is 'NCHW' or 'NHWC', not 'CHWN'"),
        (lambda: testing.mobilenet.mobile_net(layout="HWCN"), "layout is 'NCHW' or 'NHWC', not 'HWCN'"),
        (lambda: testing.squeezenet.get_workload(version="2"), "versions of SqueezeNet are 1.0 and 1.1"),
        (lambda: testing.dcgan.get_workload(1, (3, 32, 64)), "DCGAN makes images of 64x64, not 32x64"),
        (lambda: testing.dcgan.get_workload(1, layout="CHWN"), "layout is 'NCHW' or 'NHWC', not 'CHWN'"),
        (lambda: testing.densenet.get_workload(120), "sizes of DenseNet are 121, 161, 169, 201, not 120"),
        (lambda: testing.vgg.get_workload(1, num_layers=12), "VGG has 11, 13, 16, 19 layers, not 12"),
    ],
)
def test_networks_that_there_are_not(get, message):
    with pytest.raises(ValueError, match=message):
        get()


def test_the_same_network_in_both_layouts_computes_the_same():
    first, params = testing.resnet.get_workload(1, 10, 8, (3, 16, 16))
    second, _ = testing.resnet.get_workload(1, 10, 8, (16, 16, 3), "NHWC")
    turned = {
        name: value.numpy().transpose(2, 3, 1, 0) if len(value.shape) == 4 else value
        for name, value in params.items()
    }
    image = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype("float32")
    results = [
        relay.create_executor("graph", first, params=params).evaluate()(image),
        relay.create_executor("graph", second, params=turned).evaluate()(image.transpose(0, 2, 3, 1)),
    ]
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=1e-4, atol=1e-6)


def test_weights_by_their_names():
    data = relay.var("data", shape=(1, 4, 8, 8))
    net = testing.layers.conv2d(data, channels=6, kernel_size=(3, 3), name="conv")
    net = testing.layers.batch_norm_infer(net, name="bn")
    module, params = testing.create_workload(relay.Function(relay.analysis.free_vars(net), net), seed=3)
    bound = np.sqrt(3 / ((4 * 9 + 6 * 9) / 2))
    expected = np.random.RandomState(3).uniform(-bound, bound, (6, 4, 3, 3)).astype("float32")
    np.testing.assert_array_equal(params["conv_weight"].numpy(), expected)
    values = {name: float(value.numpy()[0]) for name, value in params.items() if name.startswith("bn")}
    assert values == {"bn_gamma": 1, "bn_beta": 0, "bn_moving_mean": 0, "bn_moving_var": 1}
    assert isinstance(module, tvm.IRModule)


@pytest.mark.parametrize(
    ("initializer", "bound"),
    [
        (Xavier(factor_type="in", magnitude=2), np.sqrt(2 / 4)),
        (Xavier(factor_type="out"), np.sqrt(3 / 5)),
        (Constant(), 1 / 20),
    ],
    ids=["in", "out", "constant"],
)
def test_initializers(initializer, bound):
    array = np.zeros((5, 4))
    initializer("fc_weight", array)
    assert 0.8 * bound < np.abs(array).max() <= bound


def test_depthwise_weights_see_one_window():
    array = np.zeros((64, 1, 3, 3))
    Xavier()("depthwise_weight", array)
    assert 0.5 < np.abs(array).max() <= np.sqrt(3 / 9)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda: Xavier()("image", np.zeros(2)), ModelError, "nothing tells how to fill 'image'"),
        (lambda: Xavier()("weight", np.zeros(2)), ModelError, "'weight' has 1 dimensions"),
        (lambda: Xavier("gaussian"), ValueError, "rnd_type is 'uniform', not 'gaussian'"),
        (lambda: Xavier(factor_type="all"), ValueError, "factor_type is 'avg', 'in' or 'out'"),
    ],
)
def test_initializer_mistakes(act, error, message):
    with pytest.raises(error, match=message):
        act()


def test_run_infer_type_and_run_opt_pass():
    x = relay.var("x", shape=(2, 6))
    net = relay.nn.relu(x)
    assert testing.run_infer_type(net) is net
    assert testing.run_infer_type(relay.split(x, 2)).checked_type == relay.split(x, 2).checked_type
    with pytest.raises(ModelError, match="there is no operator"):
        testing.run_infer_type(relay.Call("nothing", [x]))
    folded = relay.Function([x], x + (relay.const(1.0) + relay.const(2.0)))
    function = testing.run_opt_pass(folded, relay.transform.FoldConstant())
    assert relay.analysis.list_op_freqs(tvm.IRModule({"main": function})) == {"add": 1}
    body = testing.run_opt_pass(net, [relay.transform.InferType(), relay.transform.FoldConstant()])
    assert isinstance(body, relax.SeqExpr)


def test_a_callback_for_a_while() -> None:
    """Within ``with`` it holds whatever the level of another one, which holds again behind it."""
    asked: list[str] = []

    def callback(name: str) -> Any:
        def alter(attrs: Any, inputs: Any, tinfos: Any, out_type: Any) -> None:
            asked.append(name)

        return alter

    module = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(2, 3))))
    relay.op.register_alter_op_layout("nn.relu", callback("kept"), level=20)
    try:
        with relay.testing.TempOpAttr("nn.relu", "FTVMAlterOpLayout", callback("temporary")):
            relay.transform.AlterOpLayout()(module)
        relay.transform.AlterOpLayout()(module)
    finally:
        ALTER.reset("nn.relu")
    assert asked == ["temporary", "kept"]
    with pytest.raises(ModelError, match="'FTVMSchedule' is none of FTVMAlterOpLayout"):
        relay.testing.TempOpAttr("nn.relu", "FTVMSchedule", callback(""))
    with pytest.raises(LayoutError, match="it is called with"):
        relay.testing.TempOpAttr("nn.relu", "FTVMConvertOpLayout", lambda attrs: None).__enter__()
