"""Networks of images of any size, compiled here and run beside ONNX Runtime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relay_layout
from tests.onnx_reference import reference_session


def agree(
    model: Any, channels: int, folder: Path, sizes: Sequence[tuple[int, ...]], **options: Any
) -> dict[str, Any]:
    """The report of the compilation, whose numbers are right for each batch, rows and columns of ``sizes``.

    The model has one input ``x`` and one output.
    """
    compiled = relay_layout.compile(model, **options)
    compiled.save(folder / "open.rla")
    session, reference = relay_layout.load(folder / "open.rla"), reference_session(model.SerializeToString())
    for batch, rows, columns in sizes:
        image = np.random.default_rng(1).standard_normal((batch, channels, rows, columns)).astype("float32")
        wanted = reference.run(None, {"x": image})[0]
        (found,) = session.run({"x": image}).values()
        assert found.shape == wanted.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max(initial=1))
    return compiled.report
