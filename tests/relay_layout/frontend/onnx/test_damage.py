"""A damaged ONNX file gives ModelError or a valid module, never anything else."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper, parser
from tvm import relax

from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx

_TEXT = """
<ir_version: 8, opset_import: ["" : 17]>
small (float[N,3,9,8] image) => (float[N,5] scores, float[N,4,5,4] pooled) {
    a = Conv <kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=1> (image, weight, bias)
    n = BatchNormalization <epsilon=0.001> (a, scale, scale, scale, scale)
    c = Clip (n, low, high)
    p = MaxPool <kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1> (c)
    pooled = AveragePool <kernel_shape=[3, 3], auto_pad="SAME_UPPER"> (p)
    r = Resize <mode="linear", coordinate_transformation_mode="half_pixel"> (pooled, , scales)
    q = Pad <mode="reflect"> (r, pads)
    t = Transpose <perm=[0, 2, 3, 1]> (q)
    u = Slice (t, one, far, one)
    m = ReduceMean <axes=[1, 2], keepdims=1> (u)
    s = Shape (m)
    zero = Constant <value_int=0> ()
    b = Gather <axis=0> (s, zero)
    d = Unsqueeze (b, front)
    rest = Constant <value=int64[1] {-1}> ()
    goal = Concat <axis=0> (d, rest)
    f = Reshape (m, goal)
    g, h = Split <axis=1> (f, parts)
    k = Tile (g, repeats)
    e = ConvTranspose <kernel_shape=[2, 2], strides=[2, 2]> (p, transposed)
    l = GlobalAveragePool (e)
    o = Flatten <axis=1> (l)
    j = Concat <axis=1> (k, h, o)
    scores = Gemm <alpha=1.0, transB=1> (j, dense, offset)
}
"""


def _whole() -> bytes:
    model: Any = parser.parse_model(_TEXT)
    generator = np.random.default_rng(0)
    shapes = {"weight": (4, 3, 3, 3), "bias": (4,), "scale": (4,), "transposed": (4, 2, 2, 2)}
    shapes |= {"dense": (5, 8), "offset": (5,)}
    arrays = {name: generator.uniform(0.1, 1, shape).astype("float32") for name, shape in shapes.items()}
    arrays |= {"low": np.float32(0), "high": np.float32(6), "scales": np.array([1, 1, 2, 1.5], "float32")}
    integers = {"pads": [0, 0, 1, 1, 0, 0, 1, 1], "one": [1], "far": [9], "front": [0]}
    integers |= {"parts": [2, 2], "repeats": [1, 2]}
    arrays |= {name: np.array(numbers, "int64") for name, numbers in integers.items()}
    for name, array in arrays.items():
        model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    content: bytes = model.SerializeToString(deterministic=True)
    return content


WHOLE = _whole()


def _damaged(number: int) -> bytes:
    chance = random.Random(number)
    content = bytearray(WHOLE)
    if number % 5 == 0:
        return bytes(content[: chance.randrange(len(content))])
    for _ in range(chance.choice((1, 1, 2, 8))):
        position = chance.randrange(len(content))
        flipped = content[position] ^ (1 << chance.randrange(8))
        content[position] = chance.choice((flipped, flipped, chance.randrange(256), 0xFF))
    return bytes(content)


def test_undamaged_file_imports(tmp_path: Path) -> None:
    (tmp_path / "whole.onnx").write_bytes(WHOLE)
    assert len(from_onnx(tmp_path / "whole.onnx")["main"].params) == 1


@pytest.mark.parametrize("batch", range(10))
def test_damaged_file(batch: int, tmp_path: Path) -> None:
    file = tmp_path / "damaged.onnx"
    outcomes = set()
    for number in range(30 * batch, 30 * batch + 30):
        file.write_bytes(_damaged(number))
        try:
            module = from_onnx(file)
        except ModelError as error:
            assert str(error).isprintable() and str(error).startswith(f"model '{file}'"), number
            outcomes.add("error")
        else:
            relax.analysis.well_formed(module)
            outcomes.add("module")
    assert outcomes == {"error", "module"}
