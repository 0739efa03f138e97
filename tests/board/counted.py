"""Runs on the emulated board: one network once, between marks that its instruction counter sees.

``python -m tests.board.counted relay-layout|onnxruntime MODEL IMAGE.npz OUTPUTS.npz``
"""

import os
import sys
from collections.abc import Callable, Sequence

import numpy as np

MARK = -7777777
"""No file descriptor; closing it has the counter write what was executed since the last time."""

Run = Callable[[], Sequence[np.ndarray]]


def mark() -> None:
    """Tell the counter that something starts or has ended here."""
    try:
        os.close(MARK)
    except OSError:
        return
    raise AssertionError(f"{MARK} is a file")


def relay_layout(model: str, image: np.ndarray) -> Run:
    """An artifact, on one thread."""
    import relay_layout

    session = relay_layout.load(model, threads=1)
    return lambda: list(session.run({session.inputs[0].name: image}).values())


def onnxruntime(model: str, image: np.ndarray) -> Run:
    """An ONNX file with all that ONNX Runtime does to a graph by default, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {session.get_inputs()[0].name: image})


RUNTIMES = {"relay-layout": relay_layout, "onnxruntime": onnxruntime}


def main(arguments: Sequence[str]) -> None:
    """Run once to warm up and once between marks, and write the outputs."""
    runtime, model, image, outputs = arguments
    run = RUNTIMES[runtime](model, np.load(image)["image"])
    run()
    mark()
    found = run()
    mark()
    np.savez(outputs, *found)


if __name__ == "__main__":
    main(sys.argv[1:])
