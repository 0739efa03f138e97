"""Images of many channels are sampled with channels innermost, to the numbers of TVM's own compute."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.lower.legalize.sampling import FEWEST_CHANNELS
from tests.layout_graphs import execute
from tests.legalizing import legalized

RNG = np.random.default_rng(0)
SEPARATE = {"grid_sample_pixels", "grid_sample", "grid_sample_channels"}


def module_of(
    shape: Sequence[Any], places: Sequence[Any], dtype: str = "float32", **how: Any
) -> tvm.IRModule:
    data, grid = (
        relax.Var(name, relax.TensorType(extents, dtype))
        for name, extents in (("data", shape), ("grid", places))
    )
    builder = relax.BlockBuilder()
    with builder.function("main", [data, grid]):
        with builder.dataflow():
            call = builder.emit(relax.op.image.grid_sample(data, grid, **how))
            result = builder.emit_output(relax.Tuple([call]))
        builder.emit_func_output(result)
    return builder.finalize()


def functions_of(module: tvm.IRModule) -> set[str]:
    lowered = legalized(module)
    return {name.name_hint for name in lowered.functions if name.name_hint.startswith("grid_sample")}


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border"])
@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("batch", [2, "n"])
def test_numbers_are_those_of_few_channels(
    method: str, padding_mode: str, align_corners: bool, batch: Any
) -> None:
    image = RNG.uniform(-1, 1, (2, 11, 6, 9)).astype("float32")
    grid = RNG.uniform(-1.3, 1.3, (2, 2, 4, 5)).astype("float32")
    count = tvm.tirx.Var(batch, "int64") if isinstance(batch, str) else batch
    how = {"padding_mode": padding_mode, "align_corners": align_corners}
    module = module_of((count, *image.shape[1:]), (count, *grid.shape[1:]), method=method, **how)
    assert functions_of(module) == SEPARATE
    (have,) = execute(module, image, grid)
    few = FEWEST_CHANNELS - 1
    left_to_tvm = module_of((2, few, *image.shape[2:]), grid.shape, method=method, **how)
    for part in (slice(few), slice(-few, None)):
        (want,) = execute(left_to_tvm, np.ascontiguousarray(image[:, part]), grid)
        np.testing.assert_allclose(have[:, part], want, 1e-5, 1e-5)


@pytest.mark.parametrize(
    "module",
    [
        module_of((1, FEWEST_CHANNELS - 1, 5, 6), (1, 2, 3, 4)),
        module_of((1, 16, 5, 6), (1, 2, 3, 4), padding_mode="reflection"),
        module_of((1, 16, 5, 6), (1, 2, 3, 4), method="bicubic"),
        module_of((1, 16, 5, 6), (1, 2, 3, 4), "float16"),
        module_of((1, 16, tvm.tirx.Var("h", "int64"), 6), (1, 2, 3, 4)),
        module_of((1, 16, 3, 5, 6), (1, 3, 2, 3, 4), layout="NCDHW"),
    ],
    ids=["few channels", "reflection", "bicubic", "halves", "an extent that is not known", "volumes"],
)
def test_what_is_left_to_tvm(module: tvm.IRModule) -> None:
    assert functions_of(module) == {"grid_sample"}
