"""Convolutions of GPUs in records, in spaces, and to a model."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from topi_ext.chooser import KernelChooser
from topi_ext.cuda.depthwise_space import cheapest_depthwise
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.gemm_space import cheapest_gemm
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.errors import RelayLayoutError
from topi_ext.tune.records.database import Database
from topi_ext.tune.records.record import TuningRecord, record_from_json
from topi_ext.tune.records.recorded import RecordedKernels
from topi_ext.tune.space import Space

SM_80, SM_90 = MULTIPROCESSORS["sm_80"], MULTIPROCESSORS["sm_90"]
WORK = GemmConvolution(1, 7, 7, 64, 48, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, "float16")
NO_WGMMA = replace(SM_90, wgmma_gain=0.0)
KNOBS = cheapest_gemm(WORK, NO_WGMMA)[1].to_dict()
RECORD = TuningRecord(WORK, "sm_90", 1, KNOBS, (1e-5,) * 3, cpu="H100")


def test_a_record_survives_a_log() -> None:
    assert record_from_json(RECORD.to_json()) == RECORD
    assert RECORD.algorithm == "implicit_gemm"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"dtype": "bfloat16"}, r"workload: dtype: expected one of float16, tf32, uint8, int8, float32"),
        ({"groups": 7}, "workload: 7 groups do not divide the channels"),
        ({"kernel": [9, 9], "padding": [0, 0, 0, 0]}, "workload: the kernel is larger than the image"),
        ({"data_layout": "NHWC"}, 'workload with unknown field "data_layout"'),
        ({"strides": [0, 1]}, "workload: strides: expected 2 whole numbers of at least 1"),
    ],
)
def test_what_is_wrong_with_a_workload_is_named(change: dict[str, Any], problem: str) -> None:
    fields = json.loads(RECORD.to_json())
    fields["workload"] |= change
    with pytest.raises(RelayLayoutError, match=f"^{problem}$"):
        record_from_json(json.dumps(fields))


def test_a_database_tells_architectures_and_precisions_apart() -> None:
    database = Database([RECORD])
    assert database.best(WORK, SM_90) == RECORD
    assert database.best(WORK, SM_80) is None
    assert database.best(replace(WORK, dtype="tf32"), SM_90) is None


@pytest.mark.parametrize(
    "change", [{"stages": 99}, {"block_m": "64"}, {"tile": 1}, {"algorithm": "direct"}], ids=str
)
def test_knobs_that_do_not_fit_are_left_out(change: dict[str, Any]) -> None:
    database = Database([replace(RECORD, knobs=KNOBS | change)])
    assert database.best(WORK, SM_90) is None


def test_the_choice_is_what_was_measured() -> None:
    other = next(one for one in Space(WORK, SM_90).candidates if one.fields != KNOBS)
    faster = replace(RECORD, knobs=other.fields, seconds=(5e-6,) * 3)
    choice = RecordedKernels(Database([RECORD, faster])).choice(WORK, SM_90, SM_90.gigahertz, True)
    assert choice is not None
    assert (choice.knobs, choice.source) == (other.knobs, "tuned")
    assert choice.microseconds == pytest.approx(5.0)


def test_records_of_wgmma_are_left_out_where_it_is() -> None:
    """A record says what was measured; another one is taken where its instruction may not be used."""
    wgmma = GemmKnobs("wgmma", 64, 48, 64, 4, 1, 3).to_dict()
    fast = replace(RECORD, knobs=wgmma, seconds=(1e-6,) * 3)
    database = Database([RECORD, fast])
    assert database.best(WORK, SM_90) == fast
    assert database.best(WORK, NO_WGMMA) == RECORD
    assert database.best(WORK, SM_90) == fast


def test_records_of_bulk_copies_are_left_out_where_they_are() -> None:
    bulk = GemmKnobs("wgmma", 64, 48, 64, 4, 1, 3, copies="bulk").to_dict()
    fast = replace(RECORD, knobs=bulk, seconds=(1e-6,) * 3)
    without = replace(SM_90, has_bulk_copies=False)
    assert Database([RECORD, fast]).best(WORK, SM_90) == fast
    assert Database([RECORD, fast]).best(WORK, without) == RECORD


def test_records_of_before_there_were_bulk_copies_stay_valid() -> None:
    old = replace(RECORD, knobs={name: value for name, value in KNOBS.items() if name != "copies"})
    assert Database([old]).best(WORK, SM_90) == old
    space = Space(WORK, NO_WGMMA)
    assert space.find(old.knobs) is space.default
    assert space.find(old.knobs | {"tile": 1}) is None


@pytest.mark.parametrize("dtype", ["float16", "tf32", "float32", "uint8"])
def test_a_space_has_features_and_neighbours(dtype: str) -> None:
    space = Space(replace(WORK, dtype=dtype), SM_90)
    assert space.default.cycles == space.candidates[0].cycles
    assert space.default.knobs == cheapest_gemm(space.workload, SM_90)[1]
    assert {len(space.features(candidate)) for candidate in space.candidates} == {
        len(space.features(space.default))
    }
    assert all(map(math.isfinite, space.features(space.candidates[-1]).values()))
    assert len(space.neighbours(space.default)) >= 8


FLOAT = replace(WORK, dtype="float32")
WINOGRAD = WinogradGemmKnobs(4, GemmKnobs("fma", 32, 32, 16, 1, 2, 3))
WINOGRAD_RECORD = TuningRecord(FLOAT, "sm_90", 1, WINOGRAD.to_dict(), (1e-6,) * 3, cpu="H100")


def test_a_record_of_winograd_is_taken_where_it_may_be() -> None:
    assert record_from_json(WINOGRAD_RECORD.to_json()) == WINOGRAD_RECORD
    assert WINOGRAD_RECORD.algorithm == "winograd"
    direct = replace(WINOGRAD_RECORD, knobs=cheapest_gemm(FLOAT, SM_90)[1].to_dict(), seconds=(2e-6,) * 3)
    records = RecordedKernels(Database([direct, WINOGRAD_RECORD]))
    choice = records.choice(FLOAT, SM_90, SM_90.gigahertz, True)
    assert choice is not None
    assert (choice.knobs, choice.source, choice.microseconds) == (WINOGRAD, "tuned", pytest.approx(1.0))
    plain = records.choice(FLOAT, SM_90, SM_90.gigahertz, False)
    assert plain is not None
    assert plain.microseconds == pytest.approx(2.0)


@pytest.mark.parametrize("change", [{"tile": 3}, {"tile": "4"}, {"stages": 99}, {"block_m": "64"}], ids=str)
def test_winograd_knobs_that_do_not_fit_are_left_out(change: dict[str, Any]) -> None:
    database = Database([replace(WINOGRAD_RECORD, knobs=WINOGRAD.to_dict() | change)])
    assert database.best(FLOAT, SM_90) is None


def test_a_space_of_float32_has_winograd_of_both_tiles() -> None:
    space = Space(FLOAT, SM_90)
    found = space.find(WINOGRAD.to_dict())
    assert found is not None
    assert all(isinstance(one.knobs, WinogradGemmKnobs) for one in space.neighbours(found))
    assert {one.knobs.tile for one in space.neighbours(found)} == {2, 4}
    tiles = {space.features(one)["winograd_tile"] for one in space.candidates}
    assert tiles == {1.0, 2.0, 4.0}
    for other in (Space(FLOAT, SM_90, winograd=False), Space(replace(WORK, dtype="tf32"), SM_90)):
        assert {one.fields["algorithm"] for one in other.candidates} == {"implicit_gemm"}


def test_winograd_is_the_default_where_it_is_estimated_to_win() -> None:
    large = replace(FLOAT, batch=32, in_height=28, in_width=28, in_channels=128, out_channels=128)
    assert isinstance(KernelChooser(SM_90, SM_90.gigahertz).choose(large).knobs, WinogradGemmKnobs)
    plain = KernelChooser(SM_90, SM_90.gigahertz, winograd=False).choose(large)
    assert plain.knobs == cheapest_gemm(large, SM_90)[1]
    assert KernelChooser(SM_90, SM_90.gigahertz).choose(FLOAT).knobs == cheapest_gemm(FLOAT, SM_90)[1]


DEPTHWISE = DepthwiseConvolution(1, 14, 14, 96, 96, (5, 5), (2, 2), (2, 2, 2, 2), (1, 1), 96, "float16")
DEPTHWISE_KNOBS = cheapest_depthwise(DEPTHWISE, SM_90)[1].to_dict()
DEPTHWISE_RECORD = TuningRecord(DEPTHWISE, "sm_90", 1, DEPTHWISE_KNOBS, (4e-6,) * 3, cpu="H100")


def test_a_depthwise_record_survives_a_log() -> None:
    assert record_from_json(DEPTHWISE_RECORD.to_json()) == DEPTHWISE_RECORD
    assert DEPTHWISE_RECORD.algorithm == "depthwise"


def test_a_depthwise_record_has_as_many_groups_as_channels() -> None:
    fields = json.loads(DEPTHWISE_RECORD.to_json())
    fields["workload"]["groups"] = 48
    with pytest.raises(RelayLayoutError, match=r"^workload: 48 groups of 96 channels are not depthwise$"):
        record_from_json(json.dumps(fields))


@pytest.mark.parametrize(
    "change",
    [{"channel_threads": 7}, {"vector": 16}, {"weights": "cache"}, {"tile_rows": "2"}, {"stages": 2}],
    ids=str,
)
def test_depthwise_knobs_that_do_not_fit_are_left_out(change: dict[str, Any]) -> None:
    database = Database([replace(DEPTHWISE_RECORD, knobs=DEPTHWISE_KNOBS | change)])
    assert database.best(DEPTHWISE, SM_90) is None


def test_a_measured_depthwise_kernel_is_chosen() -> None:
    other = next(one for one in Space(DEPTHWISE, SM_90).candidates if one.fields != DEPTHWISE_KNOBS)
    faster = replace(DEPTHWISE_RECORD, knobs=other.fields, seconds=(3e-6,) * 3)
    records = RecordedKernels(Database([DEPTHWISE_RECORD, faster]))
    choice = records.choice(DEPTHWISE, SM_90, SM_90.gigahertz, True)
    assert choice is not None
    assert (choice.knobs, choice.source) == (other.knobs, "tuned")


@pytest.mark.parametrize("dtype", ["float16", "float32", "uint8"])
def test_a_depthwise_space_has_features_and_neighbours(dtype: str) -> None:
    space = Space(replace(DEPTHWISE, dtype=dtype), SM_90)
    assert space.default.knobs == cheapest_depthwise(space.workload, SM_90)[1]
    assert {candidate.knobs.weights for candidate in space.candidates} == {"registers", "shared"}
    found = {len(space.features(candidate)) for candidate in space.candidates[::50]}
    assert found == {len(space.features(space.default))}
    assert all(map(math.isfinite, space.features(space.candidates[-1]).values()))
    assert len(space.neighbours(space.default)) >= 8
