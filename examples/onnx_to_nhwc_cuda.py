"""A network from ONNX, in NCHW, converted to NHWC as one does for tensor cores.

CUDA is built for where that is possible. The converted network runs on the CPU, where its numbers are
compared with ONNX Runtime's.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
import tvm

from relay_layout import models, relay
from relay_layout.errors import RelayLayoutError

IMAGE = np.random.default_rng(0).standard_normal((1, 3, 64, 64)).astype("float32")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "squeezenet.onnx"
        models.export_onnx(models.build("squeezenet1_1", image_size=64, classes=10, width=0.5), path)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        (expected,) = session.run(None, {"input": IMAGE})
        mod, params = relay.frontend.from_onnx(str(path), shape={"input": IMAGE.shape})

    convert = tvm.transform.Sequential(
        [
            relay.transform.RemoveUnusedFunctions(),
            relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
        ]
    )
    with tvm.transform.PassContext(opt_level=3):
        mod = convert(mod)
    text = relay.astext(mod, show_meta_data=False)
    print(text)
    convolutions = [line for line in text.splitlines() if "nn.conv2d(" in line]
    assert all('data_layout="NHWC"' in line for line in convolutions)
    print(f"{len(convolutions)} convolutions, all in NHWC")

    try:
        relay.build(mod, target="cuda", params=params)
    except RelayLayoutError as error:
        print(f"not built for CUDA: {error}")
    else:
        print("built for CUDA")

    library = relay.build(mod, target="llvm", params=params)
    network = relay.graph_executor.GraphModule(library["default"](tvm.cpu()))
    network.run(input=IMAGE)
    found = network.get_output(0).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    print(f"on the CPU the outputs agree with ONNX Runtime's to {np.abs(found - expected).max():.1e}")


if __name__ == "__main__":
    main()
