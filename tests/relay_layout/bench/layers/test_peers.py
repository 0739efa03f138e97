"""What the workers run: our kernel and oneDNN on the same numbers, in this process."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_layout.bench.compare import relative_error
from relay_layout.bench.layers.peers import (
    KERNEL,
    ONEDNN,
    PEAK,
    is_dense,
    layer_arrays,
    logical_result,
    stored,
    write_job,
)
from relay_layout.runtime.peak import CHAINS
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.direct import direct_knobs
from topi_ext.spaces.winograd import winograd_knobs
from topi_ext.tune.measuring.workers import cold_copies
from topi_ext.workloads.convolution import ConvolutionWorkload, SpatialAxis, volume_workload
from topi_ext.workloads.reading import convolution_from_json

TARGET = {"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 1}

PLAIN = ConvolutionWorkload(
    batch=1,
    in_channels=16,
    out_channels=32,
    in_height=6,
    in_width=9,
    kernel=(3, 3),
    strides=(1, 1),
    padding=(1, 1, 1, 1),
    dilation=(1, 1),
    groups=1,
    data_layout="NCHW8c",
    kernel_layout="OIHW8i8o",
    out_layout="NCHW8c",
    dtype="float32",
    out_dtype="float32",
)
STRIDED = replace(PLAIN, batch=2, strides=(2, 1), dilation=(1, 2), padding=(0, 1, 2, 3), kernel=(2, 3))
LAST = replace(PLAIN, data_layout="NHWC", kernel_layout="HWIO", out_layout="NHWC", out_channels=7)
FIRST = replace(PLAIN, in_channels=3, data_layout="NCHW", kernel_layout="OIHW8o")
DEPTHWISE = replace(PLAIN, out_channels=16, groups=16, kernel_layout="OIHW8o")
GROUPED = replace(LAST, out_channels=6, groups=2)
ROW = replace(
    PLAIN,
    in_height=1,
    kernel=(1, 3),
    padding=(0, 1, 0, 1),
    data_layout="NCW8c",
    kernel_layout="OIW8i8o",
    out_layout="NCW8c",
)
PLANES = {"data_layout": "NCDHW8c", "kernel_layout": "OIDHW8i8o", "out_layout": "NCDHW8c"}
VOLUME = volume_workload(replace(STRIDED, **PLANES), SpatialAxis(5, 3, 2, 1, 1, 1))
DENSE = replace(
    PLAIN,
    in_height=1,
    in_width=3,
    kernel=(1, 1),
    padding=(0, 0, 0, 0),
    data_layout="WC",
    kernel_layout="OI16o",
    out_layout="WC",
)


def results(workload: ConvolutionWorkload, winograd: bool, tmp_path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Ours and oneDNN's, both NCHW."""
    pytest.importorskip("torch")
    from tvm.target import Target

    space = (winograd_knobs if winograd else direct_knobs)(workload, processor_of(Target(TARGET)))
    _, knobs = min(space, key=lambda found: found[0])
    job = write_job(tmp_path / "job.json", workload=workload, knobs=knobs.to_dict(), target=TARGET)
    ours, onednn = (peer.prepare(job, 1)({})()[0] for peer in (KERNEL, ONEDNN))
    return logical_result(ours, workload), onednn


@pytest.mark.parametrize(
    "workload",
    [STRIDED, LAST, FIRST, DEPTHWISE, GROUPED, ROW, VOLUME, DENSE],
    ids=["strided", "last", "first", "depthwise", "grouped", "row", "volume", "dense"],
)
def test_both_compute_the_same(workload: ConvolutionWorkload, tmp_path: Path) -> None:
    ours, onednn = results(workload, False, tmp_path)
    error = relative_error([ours], [onednn])
    assert error is not None
    assert error < 2e-6
    assert onednn.max() > 1.0


@pytest.mark.parametrize("depth", [None, SpatialAxis(5, 3, 2, 1, 1, 1)], ids=["image", "volume"])
def test_winograd_gets_its_transformed_weights(depth: SpatialAxis | None, tmp_path: Path) -> None:
    workload = replace(PLAIN, in_channels=32, in_height=8, in_width=8)
    if depth:
        workload = volume_workload(replace(workload, **PLANES), depth)
    error = relative_error(*([result] for result in results(workload, True, tmp_path)))
    assert error is not None
    assert 0 < error < 1e-5


def test_a_worker_makes_the_same_numbers_each_time() -> None:
    first, second = layer_arrays(PLAIN), layer_arrays(PLAIN)
    assert [array.shape for array in first] == [(1, 16, 6, 9), (32, 16, 3, 3), (32,)]
    assert {str(array.dtype) for array in first} == {"float32"}
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_lie_as_their_layout_says() -> None:
    array = np.arange(16 * 3, dtype=np.float32).reshape(1, 16, 1, 3)
    assert stored(array, "NCHW", "NCHW8c").shape == (1, 2, 1, 3, 8)
    np.testing.assert_array_equal(stored(array, "NCHW", "WC"), array[0, :, 0, :].T)
    workload = replace(DENSE, in_channels=4, out_channels=16)
    np.testing.assert_array_equal(logical_result(stored(array, "NCHW", "WC"), workload), array)


def test_only_products_of_rows_are_dense() -> None:
    assert is_dense(DENSE)
    assert not is_dense(ROW)


def test_a_job_file_gives_the_workload_back(tmp_path: Path) -> None:
    import json

    fields: dict[str, Any] = json.loads(write_job(tmp_path / "job.json", workload=ROW, steps=3).read_text())
    assert fields["steps"] == 3
    assert asdict(convolution_from_json(fields["workload"])) == asdict(ROW)


@pytest.mark.parametrize(
    ("size", "copies"), [(4, 1), ((128 << 10) - 1, 1), (128 << 10, 257), (48 << 20, 3), (97 << 20, 1)]
)
def test_weights_beyond_a_cache_have_copies(size: int, copies: int) -> None:
    assert cold_copies(size) == copies


def test_calls_take_turns_with_the_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    import torch

    packed: list[Any] = []
    convolve = torch.ops.mkldnn._convolution_pointwise.default
    monkeypatch.setattr("topi_ext.tune.measuring.workers.cold_copies", lambda size: 3)
    monkeypatch.setattr(
        torch.ops.mkldnn._convolution_pointwise,
        "default",
        lambda *arguments: (packed.append(arguments[1]), convolve(*arguments))[1],
    )
    run = ONEDNN.prepare(write_job(tmp_path / "job.json", workload=PLAIN), 1)({})
    # Before that, both memory formats were tried.
    packed.clear()
    for _ in range(6):
        run()
    assert len({id(weight) for weight in packed}) == 3
    assert [id(weight) for weight in packed[:3]] == [id(weight) for weight in packed[3:]]


def test_the_sums_of_the_peak_stay_finite(tmp_path: Path) -> None:
    job = write_job(tmp_path / "job.json", target=TARGET, lanes=8, steps=200)
    (sums,) = PEAK.prepare(job, 1)({})()
    assert sums.shape == (1, CHAINS, 8)
    np.testing.assert_allclose(sums, 1.0, rtol=1e-6)


def test_knobs_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    from topi_ext.errors import RelayLayoutError

    knobs = {"algorithm": "direct", "lanes": 8, "tile_pixels": 99, "tile_channels": 1}
    job = write_job(tmp_path / "job.json", workload=PLAIN, knobs=knobs, target=TARGET)
    with pytest.raises(RelayLayoutError, match="tile of 99 pixels on a run of 9"):
        KERNEL.prepare(job, 1)
