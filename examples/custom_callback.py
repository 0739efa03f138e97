"""A callback of one's own that chooses a layout for each convolution.

Wide 3x3 convolutions go to NHWC; pointwise ones and those with few input channels stay in NCHW.
"""

import numpy as np
import tvm

from relay_layout import relay

RNG = np.random.default_rng(0)
PARAMS = {
    "w0": RNG.standard_normal((32, 3, 3, 3)).astype("float32") / 5,
    "w1": RNG.standard_normal((32, 32, 3, 3)).astype("float32") / 17,
    "w2": RNG.standard_normal((64, 32, 1, 1)).astype("float32") / 6,
}
IMAGE = RNG.standard_normal((1, 3, 24, 24)).astype("float32")


@relay.op.register_convert_op_layout("nn.conv2d", level=11)
def convert_conv2d(attrs, inputs, tinfos, desired_layouts):
    """The convolution in the layout asked for, or None to leave it as it is."""
    data, kernel = tinfos
    channels = int(data.shape[1])
    print(f"conv2d of {channels} channels, kernel {[int(extent) for extent in kernel.shape]}:", end=" ")
    if channels < 16 or tuple(attrs["kernel_size"]) == (1, 1):
        print("left alone")
        return None
    print(f"to {desired_layouts[0]}")
    new_attrs = dict(attrs)
    new_attrs["data_layout"] = str(desired_layouts[0])
    new_attrs["kernel_layout"] = "HWIO"
    return relay.nn.conv2d(*inputs, **new_attrs)


def network() -> tvm.IRModule:
    """Three convolutions in NCHW."""
    net = relay.var("data", shape=IMAGE.shape)
    for name, value in PARAMS.items():
        channels, _, size, _ = value.shape
        weight = relay.var(name, shape=value.shape)
        net = relay.nn.conv2d(net, weight, channels=channels, kernel_size=(size, size), padding=size // 2)
        net = relay.nn.relu(net)
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(net), net))


def run(mod: tvm.IRModule) -> np.ndarray:
    """The output on this machine, in the layouts that the module has."""
    library = relay.build(mod, target="llvm", params=PARAMS)
    executor = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=IMAGE)
    return executor.get_output(0).numpy()


def main() -> None:
    mod = network()
    with tvm.transform.PassContext(opt_level=3):
        converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(mod)
    text = relay.astext(converted)
    print(text)
    assert text.count('data_layout="NHWC"') == 1
    before, after = run(mod), run(converted)
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    print(f"one of three convolutions in NHWC; outputs agree to {np.abs(after - before).max():.1e}")


if __name__ == "__main__":
    main()
