"""Operators of StableHLO, which converters of PyTorch leave in TensorFlow Lite files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relay_layout
from relay_layout.errors import ModelError

pytest.importorskip("tflite")

from tests.relay_layout.frontend.tflite.harness import IMAGE, randoms, reference, run
from tests.relay_layout.frontend.tflite.writer import TfliteFile


def of_two(code: str) -> TfliteFile:
    """A graph of one operator on two numbers, or, without one, the second of them."""
    graph = TfliteFile()
    operands = [graph.input(()), graph.input(())]
    if code:
        graph.operator(code, operands, ())
    return graph


def compare(file: TfliteFile, images: Sequence[np.ndarray], folder: Path) -> None:
    data = file.finish()
    (wanted,), (output,) = reference(data, images), run(data, images, folder)
    np.testing.assert_allclose(output, wanted, rtol=1e-5, atol=1e-5)


def refused(file: TfliteFile, folder: Path) -> str:
    (folder / "model.tflite").write_bytes(file.finish())
    with pytest.raises(ModelError) as caught:
        relay_layout.from_tflite(folder / "model.tflite")
    return str(caught.value).partition("cannot be imported: ")[2]


def windows(file: TfliteFile, body: str, start: float, shape: Sequence[int], **attributes: Any) -> None:
    file.graphs = [of_two(body)]
    operands = [file.input(IMAGE), file.constant(np.array(start, "float32"))]
    ones = {name: [1] * 4 for name in ("WindowStrides", "BaseDilations", "WindowDilations")}
    options = "StablehloReduceWindowOptions"
    file.operator(
        "STABLEHLO_REDUCE_WINDOW", operands, shape, options, BodySubgraphIndex=1, **{**ones, **attributes}
    )


@pytest.mark.parametrize(
    ("shape", "attributes"),
    [
        (
            (2, 4, 4, 6),
            dict(
                WindowDimensions=[1, 3, 3, 1],
                WindowStrides=[1, 2, 2, 1],
                Padding=[0] * 2 + [0, 1, 1, 1] + [0] * 2,
            ),
        ),
        ((2, 9, 7, 2), dict(WindowDimensions=[1, 1, 1, 3], WindowDilations=[1, 1, 1, 2], Padding=[0] * 8)),
        ((1, 8, 6, 6), dict(WindowDimensions=[2, 2, 2, 1], Padding=[0] * 8)),
    ],
    ids=["image", "channels", "with the batch"],
)
@pytest.mark.parametrize(
    ("body", "start"), [("STABLEHLO_MAXIMUM", -np.inf), ("STABLEHLO_ADD", 0.0)], ids=["largest", "sum"]
)
def test_windows(
    body: str, start: float, shape: tuple[int, ...], attributes: dict[str, Any], tmp_path: Path
) -> None:
    file = TfliteFile()
    windows(file, body, start, shape, **attributes)
    compare(file, [randoms(*IMAGE)], tmp_path)


def test_windows_of_another_operator_are_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    windows(file, "STABLEHLO_MULTIPLY", 1.0, (2, 8, 7, 6), WindowDimensions=[1, 2, 1, 1], Padding=[0] * 8)
    assert refused(file, tmp_path) == "STABLEHLO_REDUCE_WINDOW of float32 by MULTIPLY"


def test_windows_along_too_many_dimensions_are_refused(tmp_path: Path) -> None:
    file = TfliteFile()
    windows(file, "STABLEHLO_MAXIMUM", -np.inf, (1, 8, 6, 5), WindowDimensions=[2] * 4, Padding=[0] * 8)
    assert refused(file, tmp_path) == (
        "STABLEHLO_REDUCE_WINDOW with windows that reach along more than 3 dimensions, negative padding or "
        "numbers between elements"
    )


def scatter(
    file: TfliteFile, body: str, places: np.ndarray, updates: Sequence[int], **attributes: Any
) -> None:
    file.graphs = [of_two(body)]
    operands = [file.input(IMAGE), file.constant(places.astype("int32")), file.input(updates)]
    file.operator(
        "STABLEHLO_SCATTER",
        operands,
        IMAGE,
        "StablehloScatterOptions",
        IndexVectorDim=places.ndim - 1,
        UpdateComputationSubgraphIndex=1,
        **attributes,
    )


@pytest.mark.parametrize("body", ["", "STABLEHLO_ADD"], ids=["written", "added"])
def test_scattered_windows(body: str, tmp_path: Path) -> None:
    """Into columns 5, 0 and 3 of all images and channels, of the rows 1, 1 and 8."""
    file, places = TfliteFile(), np.array([[5, 1], [0, 1], [3, 8]])
    scatter(
        file,
        body,
        places,
        (2, 3, 6),
        UpdateWindowDims=[0, 2],
        InsertedWindowDims=[1, 2],
        ScatterDimsToOperandDims=[2, 1],
    )
    image, updates = randoms(*IMAGE), randoms(2, 3, 6)
    wanted = image.copy()
    for number, (column, row) in enumerate(places):
        wanted[:, row, column] = updates[:, number] + (wanted[:, row, column] if body else 0)
    (output,) = run(file.finish(), [image, updates], tmp_path)
    np.testing.assert_allclose(output, wanted, rtol=1e-6)


def test_parts_of_dimensions_are_not_scattered(tmp_path: Path) -> None:
    file = TfliteFile()
    scatter(
        file,
        "",
        np.array([[1]]),
        (1, 2, 3, 7, 6),
        UpdateWindowDims=[1, 2, 3, 4],
        InsertedWindowDims=[],
        ScatterDimsToOperandDims=[1],
    )
    assert refused(file, tmp_path) == "STABLEHLO_SCATTER of parts of dimensions that have no indices"


def test_padding_between_and_beside_elements(tmp_path: Path) -> None:
    file = TfliteFile()
    file.operator(
        "STABLEHLO_PAD",
        [file.input(IMAGE), file.constant(np.array(1.5, "float32"))],
        (2, 24, 10, 6),
        "StablehloPadOptions",
        EdgePaddingLow=[0, -2, 1, 1],
        EdgePaddingHigh=[0, 1, 2, -1],
        InteriorPadding=[0, 2, 0, 0],
    )
    compare(file, [randoms(*IMAGE)], tmp_path)


def test_a_composite_is_what_it_is_made_of(tmp_path: Path) -> None:
    made = TfliteFile()
    x = made.input(IMAGE)
    made.operator("ADD", [made.operator("TANH", [x], IMAGE), x], IMAGE, "AddOptions")
    file = TfliteFile(graphs=[made])
    file.operator(
        "STABLEHLO_COMPOSITE",
        [file.input(IMAGE)],
        IMAGE,
        "StableHLOCompositeOptions",
        Name="mine.residual",
        DecompositionSubgraphIndex=1,
        CompositeAttributes=[1, 2, 3],
    )
    image = randoms(*IMAGE)
    (output,) = run(file.finish(), [image], tmp_path)
    np.testing.assert_allclose(output, np.tanh(image) + image, rtol=1e-5, atol=1e-5)
