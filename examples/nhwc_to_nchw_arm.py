"""A graph as TFLite has it, NHWC with HWIO kernels, converted to NCHW, which ARM CPUs like better.

An ARM CPU is built for where there is a linker for it; the numbers are compared on this machine.
"""

import numpy as np
import tvm

from relay_layout import relay
from relay_layout.errors import RelayLayoutError

RASPBERRY = tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a72"})
DESIRED = {"nn.conv2d": ["NCHW", "default"], "nn.global_avg_pool2d": ["NCHW"]}
RNG = np.random.default_rng(0)
PARAMS = {
    "w0": RNG.standard_normal((3, 3, 3, 16)).astype("float32"),
    "b0": RNG.standard_normal(16).astype("float32"),
    "dw": RNG.standard_normal((3, 3, 16, 1)).astype("float32"),
    "w1": RNG.standard_normal((1, 1, 16, 32)).astype("float32"),
}
IMAGE = RNG.standard_normal((1, 32, 32, 3)).astype("float32")


def network() -> tvm.IRModule:
    """A convolution, a depthwise and a pointwise one, pooled to one pixel."""
    data = relay.var("data", shape=IMAGE.shape)
    weights = {name: relay.var(name, shape=value.shape) for name, value in PARAMS.items()}
    same = {"padding": (1, 1), "data_layout": "NHWC"}
    net = relay.nn.conv2d(data, weights["w0"], channels=16, kernel_size=(3, 3), kernel_layout="HWIO", **same)
    net = relay.clip(relay.nn.bias_add(net, weights["b0"], axis=3), 0.0, 6.0)
    net = relay.nn.conv2d(
        net, weights["dw"], channels=16, groups=16, kernel_size=(3, 3), kernel_layout="HWOI", **same
    )
    net = relay.nn.conv2d(
        net, weights["w1"], channels=32, kernel_size=(1, 1), data_layout="NHWC", kernel_layout="HWIO"
    )
    net = relay.nn.global_avg_pool2d(relay.nn.relu(net), layout="NHWC")
    return tvm.IRModule.from_expr(relay.Function(relay.analysis.free_vars(net), net))


def run(mod: tvm.IRModule) -> np.ndarray:
    """The output on this machine, in the layouts that the module has."""
    library = relay.build(mod, target="llvm", params=PARAMS)
    executor = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(data=IMAGE)
    return executor.get_output(0).numpy()


def main() -> None:
    mod = network()
    with RASPBERRY, tvm.transform.PassContext(opt_level=3):
        converted = relay.transform.ConvertLayout(DESIRED)(mod)
    text = relay.astext(converted)
    print(text)
    assert text.count("nn.conv2d(") == 3
    # NCHW is what Relay leaves unsaid.
    assert 'data_layout="NHWC"' not in text

    try:
        relay.build(converted, target=RASPBERRY, params=PARAMS)
    except RelayLayoutError as error:
        print(f"not built for ARM: {error}")
    else:
        print("built for ARM")

    before, after = run(mod), run(converted)
    assert after.shape == before.shape == (1, 1, 1, 32)
    np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-4)
    print(f"three convolutions in NCHW; on this CPU the outputs agree to {np.abs(after - before).max():.1e}")


if __name__ == "__main__":
    main()
