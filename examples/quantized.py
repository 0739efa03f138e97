"""A quantized convolution with its requantize, as TFLite has them in NHWC, converted to NCHW.

The numbers are compared with integer arithmetic in numpy: they must be equal, not close.
"""

import numpy as np
import tvm

from relay_layout import relay

RNG = np.random.default_rng(0)
IMAGE = RNG.integers(0, 255, (1, 12, 12, 8), dtype="uint8", endpoint=True)
KERNEL = RNG.integers(0, 255, (3, 3, 8, 16), dtype="uint8", endpoint=True)
IMAGE_ZERO, KERNEL_ZERO, OUTPUT_ZERO = 128, 120, 110
# Powers of two, so that the scaling is a shift and its rounding can be checked to the last bit.
IMAGE_SCALE, KERNEL_SCALE, OUTPUT_SCALE = 2.0**-6, 2.0**-7, 2.0**-3


def network() -> tvm.IRModule:
    """qnn.conv2d in NHWC and qnn.requantize to uint8."""
    data = relay.var("data", shape=IMAGE.shape, dtype="uint8")
    convolved = relay.qnn.op.conv2d(
        data,
        relay.const(KERNEL),
        relay.const(IMAGE_ZERO, "int32"),
        relay.const(KERNEL_ZERO, "int32"),
        relay.const(IMAGE_SCALE, "float32"),
        relay.const(KERNEL_SCALE, "float32"),
        kernel_size=(3, 3),
        channels=16,
        padding=(1, 1),
        data_layout="NHWC",
        kernel_layout="HWIO",
        out_dtype="int32",
    )
    result = relay.qnn.op.requantize(
        convolved,
        relay.const(IMAGE_SCALE * KERNEL_SCALE, "float32"),
        relay.const(0, "int32"),
        relay.const(OUTPUT_SCALE, "float32"),
        relay.const(OUTPUT_ZERO, "int32"),
        axis=3,
        out_dtype="uint8",
    )
    return tvm.IRModule.from_expr(relay.Function([data], result))


def expected() -> np.ndarray:
    """The same in integers."""
    padded = np.pad(IMAGE.astype("int64") - IMAGE_ZERO, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    total = np.einsum("nhwcij,ijco->nhwo", windows, KERNEL.astype("int64") - KERNEL_ZERO)
    scaled = total * (IMAGE_SCALE * KERNEL_SCALE / OUTPUT_SCALE)
    return np.clip(np.floor(scaled + 0.5) + OUTPUT_ZERO, 0, 255).astype("uint8")


def main() -> None:
    mod = network()
    with tvm.transform.PassContext(opt_level=3):
        converted = relay.transform.ConvertLayout({"qnn.conv2d": ["NCHW", "default"]})(mod)
    print(relay.astext(converted, show_meta_data=False))
    assert 'data_layout="NHWC"' not in relay.astext(converted, show_meta_data=False)
    for name, each in (("NHWC", mod), ("NCHW", converted)):
        library = relay.build(each, target="llvm")
        executor = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
        executor.run(data=IMAGE)
        np.testing.assert_array_equal(executor.get_output(0).numpy(), expected())
        print(f"in {name}: equal to integer arithmetic in numpy")


if __name__ == "__main__":
    main()
