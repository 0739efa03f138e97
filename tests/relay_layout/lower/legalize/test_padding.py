"""Padding of images of any size, and by their own elements."""

from pathlib import Path

import numpy as np
import pytest
from tvm import relax, tirx

import relay_layout
from tests.relax_modules import module_giving

MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
WIDTHS = [(0, 0), (1, 2), (3, 0), (0, 4)]


@pytest.mark.parametrize("mode", MODES)
def test_images_of_any_size(mode: str, tmp_path: Path) -> None:
    """The loops have the very extents that are inferred: half of the height and 4, not (height + 8) // 2."""
    height, width = (tirx.Var(name, "int64") for name in ("height", "width"))
    image = relax.Var("x", relax.TensorType([1, 3, height, width], "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            half = builder.emit(relax.op.strided_slice(image, [2], [0], [1 << 40], [2]))
            value = 0.5 if mode == "constant" else 0.0
            flat = [width for pair in WIDTHS for width in pair]
            result = builder.emit_output(relax.op.nn.pad(half, flat, mode, value))
        builder.emit_func_output(result)
    relay_layout.compile(builder.finalize()).save(tmp_path / "padded.rla")
    session = relay_layout.load(tmp_path / "padded.rla")
    for rows, columns in ((9, 6), (12, 5)):
        data = np.random.default_rng(rows).standard_normal((1, 3, rows, columns)).astype("float32")
        (found,) = session.run({"x": data}).values()
        filled = {"constant_values": 0.5} if mode == "constant" else {}
        np.testing.assert_array_equal(found, np.pad(data[:, :, ::2], WIDTHS, MODES[mode], **filled))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("columns", [5, 17, 28, 56])
@pytest.mark.parametrize("width", [1, 2, 4])
def test_images_of_known_size(mode: str, columns: int, width: int) -> None:
    """Rows are one vector, or several, of which some are read beyond the image and others are not."""
    image = relax.Var("x", relax.TensorType([2, 3, 6, columns], "float32"))
    widths = [(0, 0), (0, 0), (2, 1), (width, width)]
    flat = [width for pair in widths for width in pair]
    module = module_giving(relax.op.nn.pad(image, flat, mode), image)
    data = np.random.default_rng(0).standard_normal((2, 3, 6, columns)).astype("float32")
    (found,) = relay_layout.compile(module).session().run({"x": data}).values()
    np.testing.assert_array_equal(found, np.pad(data, widths, MODES[mode]))


@pytest.mark.parametrize("mode", ["replicate", "circular"])
@pytest.mark.parametrize("is_open", [False, True])
def test_more_is_added_than_there_is(mode: str, is_open: bool) -> None:
    columns = tirx.Var("columns", "int64") if is_open else 5
    image = relax.Var("x", relax.TensorType([3, columns], "float32"))
    module = module_giving(relax.op.nn.pad(image, [0, 0, 12, 7], mode), image)
    data = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    (found,) = relay_layout.compile(module).session().run({"x": data}).values()
    np.testing.assert_array_equal(found, np.pad(data, [(0, 0), (12, 7)], MODES[mode]))
