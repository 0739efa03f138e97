"""Images that grow are resized by columns and then by rows, with the numbers of TVM's own compute."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.s_tir import SBlock

from relay_layout.lower.legalize.cuda import cuda_legalization_map
from relay_layout.targets import CudaTarget, resolve_target
from tests.layout_graphs import execute
from tests.legalizing import legalized
from topi_ext.ir import nodes_of

RNG = np.random.default_rng(0)
GROWING = ((7, 5), (13, 17))
SEPARATE = {"resize_columns", "resize_rows"}


def module_of(shape: Sequence[Any], size: Sequence[Any], **attributes: Any) -> tvm.IRModule:
    dtype = attributes.pop("dtype", "float32")
    data = relax.Var("data", relax.TensorType(shape, dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            call = relax.op.image.resize2d(data, relax.ShapeExpr(size), **attributes)
            result = builder.emit_output(relax.Tuple([builder.emit(call)]))
        builder.emit_func_output(result)
    return builder.finalize()


def functions_of(module: tvm.IRModule) -> set[str]:
    lowered = legalized(module)
    return {name.name_hint for name in lowered.functions if name.name_hint.startswith("resize")}


@pytest.mark.parametrize("method", ["linear", "cubic"])
@pytest.mark.parametrize(
    "mode", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
)
@pytest.mark.parametrize(
    "extents",
    [GROWING, ((6, 9), (12, 9)), ((1, 1), (8, 8)), ((8, 8), (9, 4)), ((13, 17), (7, 5)), ((7, 5), (7, 17))],
)
def test_numbers_are_those_of_channels_last(
    method: str, mode: str, extents: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    compare(*extents, method=method, coordinate_transformation_mode=mode)


@pytest.mark.parametrize("rounding", ["", "floor", "round_prefer_floor", "round_prefer_ceil"])
@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("extents", [GROWING, ((6, 9), (12, 27)), ((1, 1), (8, 8)), ((13, 16), (7, 8))])
def test_nearest_elements_are_those_of_channels_last(
    mode: str, rounding: str, extents: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    how = {"coordinate_transformation_mode": mode, "rounding_method": rounding}
    compare(*extents, method="nearest_neighbor", **how)


def test_places_of_nearest_elements_are_worked_out_once() -> None:
    module = module_of((1, 3, 40, 40), (66, 66), method="nearest_neighbor")
    lowered = legalized(module)
    blocks = nodes_of(lowered["resize2d"].body, SBlock)
    places = [block.writes[0].source.shape for block in blocks if block.name_hint.startswith("places")]
    assert [list(map(int, shape)) for shape in places] == [[66]] * 2


def test_attributes_of_cubic_interpolation() -> None:
    compare(*GROWING, method="cubic", cubic_alpha=-0.3, cubic_exclude=1)


def compare(before: tuple[int, int], after: tuple[int, int], **how: Any) -> None:
    """Both layouts; channels last are TVM's compute."""
    image = RNG.uniform(-1, 1, (2, 3, *before)).astype("float32")
    (have,) = execute(module_of(image.shape, after, layout="NCHW", **how), image)
    last = np.ascontiguousarray(image.transpose(0, 2, 3, 1))
    (want,) = execute(module_of(last.shape, after, layout="NHWC", **how), last)
    np.testing.assert_allclose(have, want.transpose(0, 3, 1, 2), 1e-6, 1e-6)


def test_symbolic_extents() -> None:
    batch, rows, columns = (tvm.tirx.Var(name, "int64") for name in ("batch", "rows", "columns"))
    module = module_of([batch, 3, rows, columns], [2 * rows, 2 * columns], method="linear")
    assert functions_of(module) == SEPARATE
    image = RNG.uniform(-1, 1, (2, 3, 5, 4)).astype("float32")
    (want,) = execute(module_of(image.shape, (10, 8), method="linear"), image)
    np.testing.assert_allclose(execute(module, image)[0], want, 1e-6, 1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded_once(dtype: str) -> None:
    module = module_of((2, 3, 7, 5), (13, 17), method="linear", dtype=dtype)
    assert functions_of(module) == SEPARATE
    image = RNG.uniform(-1, 1, (2, 3, 7, 5)).astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    wide = image.astype("float32")
    (want,) = execute(module_of(image.shape, (13, 17), method="linear"), wide)
    (have,) = execute(module, image)
    assert str(have.dtype) == dtype
    np.testing.assert_allclose(have.astype("float32"), want, 2**-8 if dtype == "bfloat16" else 2**-11, 1e-6)


@pytest.mark.parametrize(
    ("shape", "size", "attributes"),
    [
        ((1, 3, 13, 41), (7, 5), {"method": "linear"}),
        ((1, 7, 5, 3), (13, 17), {"method": "linear", "layout": "NHWC"}),
        ((1, 3, 7, 5), (13, 17), {"method": "nearest_neighbor"}),
        ((1, 3, 7, 5), (13, 17), {"method": "linear", "dtype": "uint8"}),
        (
            (1, 3, 7, 5),
            (13, 17),
            {"method": "linear", "roi": (0.1, 0.1, 0.9, 0.9)}
            | {"coordinate_transformation_mode": "tf_crop_and_resize"},
        ),
    ],
    ids=["far_fewer_columns", "channels_last", "nearest", "bytes", "region"],
)
def test_others_stay_one_function(
    shape: Sequence[int], size: Sequence[int], attributes: dict[str, Any]
) -> None:
    assert functions_of(module_of(shape, size, **attributes)) == {"resize2d"}


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_corners_of_one_row_on_a_gpu(layout: str) -> None:
    """Its kernels, run here: an image of one row that keeps it, and has more columns."""
    target = resolve_target("cuda-sm_80")
    assert isinstance(target, CudaTarget)
    image = RNG.uniform(-1, 1, (2, 1, 5, 3)).astype("float32")
    order = (0, 3, 1, 2) if layout == "NCHW" else (0, 1, 2, 3)
    held = np.ascontiguousarray(image.transpose(order))
    how = {"layout": layout, "method": "linear", "coordinate_transformation_mode": "align_corners"}
    legalize = relax.transform.LegalizeOps(cuda_legalization_map(target))
    (have,) = execute(legalize(module_of(held.shape, (1, 9), **how)), held)
    twice = np.ascontiguousarray(np.repeat(image, 2, 1).transpose(order))
    (want,) = execute(module_of(twice.shape, (2, 9), **how), twice)
    np.testing.assert_allclose(have, np.take(want, [0], order.index(1)), 1e-6, 1e-6)


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_corners_of_one_column_are_its_first(method: str, dtype: str) -> None:
    """Rows are resized as those of an image of which every column is the first."""
    image = RNG.integers(0, 100, (2, 3, 5, 4)).astype(dtype)
    alike = np.repeat(image[..., :1], 4, axis=3)
    how = {"dtype": dtype, "method": method, "coordinate_transformation_mode": "align_corners"}
    (have,) = execute(module_of(image.shape, (8, 1), **how), image)
    (want,) = execute(module_of(image.shape, (8, 4), **how), alike)
    np.testing.assert_allclose(have, want[..., :1], 1e-6, 1e-6)
    (pixel,) = execute(module_of(image.shape, (1, 1), **how), image)
    np.testing.assert_array_equal(pixel, image[..., :1, :1])
