"""Networks of images of any size, compiled here and run beside ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import relay_layout
from tests.onnx_reference import reference_session


def agree(
    model: Any, channels: int, folder: Path, sizes: Sequence[tuple[int, ...]], **options: Any
) -> dict[str, Any]:
    """The report of the compilation, whose numbers are right for each batch and spatial extents of ``sizes``.

    The model has one input ``x`` and one output.
    """
    compiled = relay_layout.compile(model, **options)
    compiled.save(folder / "open.rla")
    session, reference = relay_layout.load(folder / "open.rla"), reference_session(model.SerializeToString())
    for batch, *extents in sizes:
        image = np.random.default_rng(1).standard_normal((batch, channels, *extents)).astype("float32")
        wanted = reference.run(None, {"x": image})[0]
        (found,) = session.run({"x": image}).values()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max(initial=1))
    return compiled.report


SIZES = [(1, 16, 16), (2, 5, 7), (1, 33, 50), (3, 19, 64), (1, 1, 1)]
"""Batch, rows and columns."""


def model_of(
    attributes: str,
    weight: tuple[int, ...],
    image: tuple[Any, ...],
    after: str = "y = Relu (c)",
    operator: str = "Conv",
) -> Any:
    rng = np.random.default_rng(0)
    header = '<ir_version: 8, opset_import: ["" : 17]> tiles () => ()'
    model = onnx.parser.parse_model(f"{header} {{ c = {operator} <{attributes}> (x, w, b)  {after} }}")
    graph = model.graph
    graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, image))
    outputs = weight[:1] if operator == "Conv" else weight[1:2]
    for name, shape in (("w", weight), ("b", outputs)):
        array = rng.standard_normal(shape).astype("float32")
        graph.initializer.append(numpy_helper.from_array(array, name))
    graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return model


WINDOWS = {
    "3x3": ("pads=[1,1,1,1]", (24, 8, 3, 3)),
    "strided": ("pads=[1,1,1,1], strides=[2,2]", (16, 8, 3, 3)),
    "uneven": ("pads=[0,2,1,0], strides=[1,3]", (7, 8, 2, 5)),
    "dilated": ("pads=[2,3,2,3], dilations=[2,3]", (16, 8, 3, 3)),
    "pointwise": ("pads=[0,0,0,0]", (32, 8, 1, 1)),
    "pointwise, strided": ("strides=[2,1]", (32, 8, 1, 1)),
    "depthwise": ("pads=[1,1,1,1], group=8", (8, 1, 3, 3)),
    "depthwise, strided": ("pads=[2,2,2,2], strides=[2,2], group=8", (8, 1, 5, 5)),
    "groups": ("pads=[1,1,1,1], group=2", (12, 4, 3, 3)),
    "many channels": ("pads=[1,1,1,1]", (64, 8, 3, 3)),
}
