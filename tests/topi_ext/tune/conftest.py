"""Workloads, records, and a measurer that computes times instead of taking them."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from zlib import crc32

import pytest

from topi_ext.machine.processor import Processor
from topi_ext.tune.measuring.measurement import Measurement
from topi_ext.tune.records.record import TuningRecord, knobs_key
from topi_ext.workloads.convolution import ConvolutionWorkload

MakeRecord = Callable[..., TuningRecord]


@pytest.fixture
def processor() -> Processor:
    return Processor("x86-64 AVX-512", 64, 32, 2, 4, 2, 32 << 10, 1 << 20, threads=2)


def square(channels: int, size: int, kernel: int = 3) -> ConvolutionWorkload:
    """A convolution of NCHW16c that keeps its image's size."""
    pad = kernel // 2
    return ConvolutionWorkload(
        batch=1,
        in_channels=channels,
        out_channels=channels,
        in_height=size,
        in_width=size,
        kernel=(kernel, kernel),
        strides=(1, 1),
        padding=(pad, pad, pad, pad),
        dilation=(1, 1),
        groups=1,
        data_layout="NCHW16c",
        kernel_layout="OIHW16i16o",
        out_layout="NCHW16c",
        dtype="float32",
        out_dtype="float32",
    )


@pytest.fixture
def workload() -> ConvolutionWorkload:
    return square(32, 14)


@pytest.fixture
def squares() -> Callable[..., ConvolutionWorkload]:
    return square


KNOBS = {
    "algorithm": "direct",
    "lanes": 16,
    "tile_pixels": 7,
    "tile_channels": 2,
    "order": "channels",
    "rows": 1,
    "pad_at": "stage",
}


@pytest.fixture
def knobs() -> dict[str, Any]:
    """Knobs that fit ``workload``."""
    return dict(KNOBS)


@pytest.fixture
def make_record(workload: ConvolutionWorkload) -> MakeRecord:
    """A record of ``workload``; keyword arguments replace fields."""

    def make(*seconds: float, **changes: Any) -> TuningRecord:
        fields: dict[str, Any] = {
            "workload": workload,
            "processor": "x86-64 AVX-512",
            "threads": 2,
            "knobs": dict(KNOBS),
            "seconds": seconds,
            "cpu": "test machine",
            "time": "2026-01-02T03:04:05.000+00:00",
            "versions": {"tvm": "0.27"},
        }
        return TuningRecord(**(fields | changes))

    return make


def chance(*words: object) -> float:
    """A number in [0, 1) that depends on the words alone."""
    return crc32(repr(words).encode()) / 2**32


def made_up_seconds(knobs: dict[str, Any], seed: int = 0) -> float:
    """A run time that depends smoothly on a few knobs, and a little on chance."""
    pixels = abs(math.log2(knobs["tile_pixels"] / (4 + 8 * chance(seed, "pixels"))))
    channels = abs(knobs["tile_channels"] - (1 + 2.5 * chance(seed, "channels")))
    rows = abs(math.log2(knobs["rows"]) - 3 * chance(seed, "rows"))
    order = 0.3 * (knobs["order"] == ("pixels" if chance(seed, "order") < 0.5 else "channels"))
    slower = 1 + 0.4 * pixels + 0.3 * channels + 0.15 * rows + order
    if knobs["algorithm"] == "winograd":
        slower *= 1.5
    return 1e-4 * slower * (1 + 0.02 * chance(seed, knobs_key(knobs)))


class MadeUp:
    """A measurer that takes no time; ``counts`` has how often each kernel was run.

    ``errors`` are what is wrong with the results of kernels, by their knobs.
    """

    cpu = "test machine"
    builds_ahead = False

    def __init__(self, seconds: Callable[[dict[str, Any]], float] = made_up_seconds) -> None:
        self.counts: dict[str, int] = {}
        self.errors: dict[str, str] = {}
        self.closed = False
        self._seconds = seconds

    def measure(
        self, workload: ConvolutionWorkload, knobs: Sequence[Any], rounds: int = 1
    ) -> Iterator[Measurement]:
        for one in knobs:
            fields = one.to_dict()
            key = f"{workload.in_channels} {knobs_key(fields)}"
            self.counts[key] = self.counts.get(key, 0) + rounds
            seconds = self._seconds(fields)
            if math.isinf(seconds):
                yield Measurement((), "run: no luck")
            else:
                yield Measurement((seconds,) * 3 * rounds)

    def result_error(self, workload: ConvolutionWorkload, knobs: Any) -> str:
        return self.errors.get(knobs_key(knobs.to_dict()), "")

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def measurer() -> MadeUp:
    return MadeUp()


@pytest.fixture
def measurer_of() -> type[MadeUp]:
    return MadeUp


@pytest.fixture
def seconds_of() -> Callable[..., float]:
    return made_up_seconds
