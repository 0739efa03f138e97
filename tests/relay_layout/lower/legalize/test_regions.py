"""Regions are averaged with channels innermost, to the numbers of TVM's own compute."""

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from tests.layout_graphs import execute
from tests.legalizing import legalized

RNG = np.random.default_rng(0)
REGIONS = np.concatenate([RNG.integers(0, 2, (40, 1)), RNG.uniform(-2, 12, (40, 4))], 1).astype("float32")
OURS = {"roi_align", "roi_align_pixels"}


def module_of(shape: Any, count: Any, **how: Any) -> tvm.IRModule:
    data, regions = (
        relax.Var("data", relax.TensorType(shape, "float32")),
        relax.Var("regions", relax.TensorType((count, 5), "float32")),
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data, regions]):
        with builder.dataflow():
            call = builder.emit(relax.op.vision.roi_align(data, regions, (3, 2), 0.5, 2, **how))
            result = builder.emit_output(relax.Tuple([call]))
        builder.emit_func_output(result)
    return builder.finalize()


def functions_of(module: tvm.IRModule) -> set[str]:
    lowered = legalized(module)
    return {name.name_hint for name in lowered.functions if name.name_hint.startswith("roi_align")}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("aligned", [False, True])
def test_numbers_are_those_of_tvm(layout: str, aligned: bool) -> None:
    shape = (2, 5, 8, 9) if layout == "NCHW" else (2, 8, 9, 5)
    image = RNG.standard_normal(shape, "float32")
    module = module_of(shape, 40, layout=layout, aligned=aligned)
    assert functions_of(module) == (OURS if layout == "NCHW" else {"roi_align"})
    (have,) = execute(module, image, REGIONS)
    by_tvm = relax.transform.LegalizeOps()(module)
    (want,) = execute(by_tvm, image, REGIONS)
    np.testing.assert_allclose(have, want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    ("count", "ours"), [(1, False), (40, True), (tvm.tirx.Var("count", "int64"), True)], ids=str
)
def test_few_places_of_a_large_image_are_left_to_tvm(count: Any, ours: bool) -> None:
    assert (functions_of(module_of((1, 16, 32, 32), count)) == OURS) == ours


def test_largest_samples_are_left_to_tvm() -> None:
    assert "roi_align_pixels" not in functions_of(module_of((1, 16, 8, 8), 40, mode="max"))
