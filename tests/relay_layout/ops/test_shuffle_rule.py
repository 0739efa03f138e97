"""Pixel shuffle against numpy: TVM's wheel lowers it in no layout."""

import numpy as np
from tvm import relax

from relay_layout.choice.solver import Solution
from relay_layout.graph import build_graph
from relay_layout.rewrite.rewriter import rewrite
from tests.relay_layout.ops.every_signature import (
    data_layouts,
    function_of,
    image,
    run_functions,
    signatures_of,
)


def shuffled(data: np.ndarray, factor: int) -> np.ndarray:
    """Pixel shuffle of (N, C, H, W), after its definition in PyTorch's documentation."""
    batch, channels, height, width = data.shape
    split = data.reshape(batch, channels // factor**2, factor, factor, height, width)
    return split.transpose(0, 1, 4, 2, 5, 3).reshape(batch, -1, height * factor, width * factor)


def test_every_layout_computes_what_the_operator_means() -> None:
    data = image(2, 18, 4, 5)
    function = function_of(lambda x: relax.op.nn.pixel_shuffle(x, 3), data)
    signatures = signatures_of(function, "nn.pixel_shuffle")
    assert {"ACDB", "DCBA"} <= data_layouts(signatures)
    variants = []
    for signature in signatures:
        graph = build_graph(function)
        solution = Solution({graph.nodes[0]: signature}, "optimal", 0.0, 0.0, 0.0)
        outputs = {value: value.identity for value in graph.outputs()}
        variants.append(rewrite(graph, solution, outputs).function)
    for signature, (result,) in zip(signatures, run_functions(variants, [data]), strict=True):
        np.testing.assert_array_equal(result, shuffled(data, 3), err_msg=str(signature.operands))


def test_it_reads_one_layout_and_writes_another() -> None:
    function = function_of(lambda x: relax.op.nn.pixel_shuffle(x, 2), image(1, 8, 4, 5))
    pairs = {
        (str(signature.operands[0]), str(signature.results[0]))
        for signature in signatures_of(function, "nn.pixel_shuffle")
    }
    assert ("ACDB", "ABCD") in pairs
