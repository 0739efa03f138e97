"""ConvertLayout with the first convolution left out, whose three channels suit no other layout."""

import numpy as np
import tvm

from relay_layout import relay

RNG = np.random.default_rng(0)
PARAMS = {
    "w0": RNG.standard_normal((16, 3, 3, 3)).astype("float32") / 5,
    "w1": RNG.standard_normal((16, 16, 3, 3)).astype("float32") / 12,
    "w2": RNG.standard_normal((16, 16, 3, 3)).astype("float32") / 12,
}
IMAGE = RNG.standard_normal((1, 3, 20, 20)).astype("float32")


def network() -> tvm.IRModule:
    """A convolution, then two with a shortcut around them."""
    net = relay.var("data", shape=IMAGE.shape)
    weights = {name: relay.var(name, shape=value.shape) for name, value in PARAMS.items()}
    same = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 1)}
    stem = relay.nn.relu(relay.nn.conv2d(net, weights["w0"], **same))
    net = relay.nn.relu(relay.nn.conv2d(stem, weights["w1"], **same))
    net = relay.nn.relu(relay.add(relay.nn.conv2d(net, weights["w2"], **same), stem))
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(net), net))


def run(mod: tvm.IRModule) -> np.ndarray:
    """The output on this machine, in the layouts that the module has."""
    library = relay.build(mod, target="llvm", params=PARAMS)
    executor = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=IMAGE)
    return executor.get_output(0).numpy()


def layouts(mod: tvm.IRModule) -> list[str]:
    """The data layout of each convolution in the order of the text."""
    lines = [line for line in relay.astext(mod).splitlines() if "nn.conv2d(" in line]
    return ["NHWC" if 'data_layout="NHWC"' in line else "NCHW" for line in lines]


def main() -> None:
    mod = network()
    convert = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})
    with tvm.transform.PassContext(opt_level=3):
        everywhere = convert(mod)
        with relay.transform.LayoutConfig(skip_layers=[0]):
            all_but_first = convert(mod)
    print("converted everywhere:     ", layouts(everywhere))
    print("converted but the first:  ", layouts(all_but_first))
    assert layouts(everywhere) == ["NHWC", "NHWC", "NHWC"]
    assert layouts(all_but_first) == ["NCHW", "NHWC", "NHWC"]
    expected = run(mod)
    for converted in (everywhere, all_but_first):
        np.testing.assert_allclose(run(converted), expected, rtol=1e-4, atol=1e-4)
    print(relay.astext(all_but_first))
    print("the outputs of both agree with those of the network as it was")


if __name__ == "__main__":
    main()
