"""Scripts as Relay's tutorials had them, after changing the import of relay."""

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.relay import graph_executor, testing


def test_quick_start(tmp_path):
    batch_size, num_class, image_shape = 1, 10, (3, 64, 64)
    data_shape = (batch_size, *image_shape)
    mod, params = testing.resnet.get_workload(
        num_layers=18, batch_size=batch_size, num_classes=num_class, image_shape=image_shape
    )
    with tvm.transform.PassContext(opt_level=3):
        lib = relay.build(mod, target="llvm", params=params)
    dev = tvm.cpu()
    data = np.random.default_rng(0).uniform(-1, 1, size=data_shape).astype("float32")
    module = graph_executor.GraphModule(lib["default"](dev))
    module.set_input("data", data)
    module.run()
    out = module.get_output(0, tvm.runtime.empty((batch_size, num_class))).numpy()
    np.testing.assert_allclose(out.sum(), 1, rtol=1e-5)

    path = tmp_path / "deploy_lib.tar"
    lib.export_library(path)
    loaded_lib = relay.load_module(path)
    module = graph_executor.GraphModule(loaded_lib["default"](dev))
    module.run(data=tvm.runtime.tensor(data))
    np.testing.assert_allclose(module.get_output(0).numpy(), out, atol=1e-5)

    plain = relay.create_executor("graph", mod, dev, "llvm", params).evaluate()(data)
    np.testing.assert_allclose(plain.numpy(), out, rtol=1e-3, atol=1e-5)


def test_using_relay_with_onnx():
    onnx = pytest.importorskip("onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from relay_layout import models

    onnx_model = onnx.load_from_string(
        models.to_onnx(models.build("squeezenet1_1", image_size=64, width=0.25)).SerializeToString()
    )
    x = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype("float32")
    target = "llvm"
    input_name = "input"
    shape_dict = {input_name: x.shape}
    mod, params = relay.frontend.from_onnx(onnx_model, shape_dict)
    with tvm.transform.PassContext(opt_level=1):
        executor = relay.build_module.create_executor("graph", mod, tvm.cpu(0), target, params).evaluate()
    tvm_output = executor(tvm.runtime.tensor(x.astype("float32"))).numpy()
    expected = onnxruntime.InferenceSession(onnx_model.SerializeToString()).run(None, {input_name: x})[0]
    np.testing.assert_allclose(tvm_output, expected, rtol=1e-4, atol=1e-5)


def simple_net() -> relay.Function:
    data = relay.var("data", relay.TensorType((1, 3, 16, 16), "float32"))
    weight = relay.var("weight")
    bn_gamma, bn_beta = relay.var("bn_gamma"), relay.var("bn_beta")
    bn_mmean, bn_mvar = relay.var("bn_mean"), relay.var("bn_var")
    net = relay.nn.conv2d(data=data, weight=weight, kernel_size=(3, 3), channels=8, padding=(1, 1))
    net = relay.nn.batch_norm(net, bn_gamma, bn_beta, bn_mmean, bn_mvar)[0]
    net = relay.nn.relu(net)
    return relay.Function(relay.analysis.free_vars(net), net)


def reference(data: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """What the simple network computes with statistics of mean 0 and variance 1."""
    padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    result = np.maximum(np.einsum("nchwij,ocij->nohw", windows, weight) / np.sqrt(1 + 1e-5), 0)
    return result.astype("float32")


@pytest.mark.parametrize("layouts", [None, {"nn.conv2d": ["NHWC", "default"]}])
def test_build_a_simple_network(layouts):
    net, params = testing.create_workload(simple_net())
    if layouts is not None:
        seq = tvm.transform.Sequential(
            [relay.transform.RemoveUnusedFunctions(), relay.transform.ConvertLayout(layouts)]
        )
        with tvm.transform.PassContext(opt_level=3):
            net = seq(net)
        assert 'data_layout="NHWC"' in relay.astext(net)
    lib = relay.build(net, "llvm", params=params)
    ctx = tvm.cpu(0)
    data = np.random.default_rng(0).uniform(-1, 1, size=(1, 3, 16, 16)).astype("float32")
    module = graph_executor.GraphModule(lib["default"](ctx))
    module.set_input("data", data)
    module.run()
    expected = reference(data, params["weight"].numpy())
    np.testing.assert_allclose(module.get_output(0).numpy(), expected, rtol=1e-4, atol=1e-5)


def test_convert_layout_with_a_callback():
    from relay_layout.relay import callbacks

    @relay.op.register_convert_op_layout("nn.conv2d", level=11)
    def convert_conv2d(attrs, inputs, tinfos, desired_layouts):
        data, weight = inputs
        new_attrs = dict(attrs)
        new_attrs["data_layout"], new_attrs["kernel_layout"] = desired_layouts
        assert [info.dtype for info in tinfos] == ["float32", "float32"]
        return relay.nn.conv2d(data, weight, **new_attrs)

    try:
        module, params = testing.create_workload(simple_net())
        converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "HWIO"]})(module)
    finally:
        callbacks.reset("nn.conv2d")
    assert 'kernel_layout="HWIO"' in relay.astext(converted)
    data = np.random.default_rng(0).uniform(-1, 1, size=(1, 3, 16, 16)).astype("float32")
    result = relay.create_executor("vm", converted, params=params).evaluate()(data)
    np.testing.assert_allclose(
        result.numpy(), reference(data, params["weight"].numpy()), rtol=1e-4, atol=1e-5
    )


def test_saving_and_loading_parameters():
    module, params = testing.mlp.get_workload(2)
    loaded = relay.load_param_dict(relay.save_param_dict(params))
    data = np.random.default_rng(0).standard_normal((2, 1, 28, 28)).astype("float32")
    first, second = (
        relay.create_executor("graph", module, params=given).evaluate()(data).numpy()
        for given in (params, loaded)
    )
    np.testing.assert_array_equal(first, second)
    hidden = data.reshape(2, -1)
    for name in ("fc1", "fc2"):
        hidden = np.maximum(hidden @ params[f"{name}_weight"].numpy().T, 0)
    logits = hidden @ params["fc3_weight"].numpy().T
    expected = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    np.testing.assert_allclose(first, expected, rtol=1e-4, atol=1e-5)
