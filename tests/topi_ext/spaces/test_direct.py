"""What the estimates of direct convolutions know of weights that are asked for ahead, and of strides."""

from dataclasses import replace

import pytest
from kernel_harness import target_for
from kernel_networks import workload_for
from tvm.target import Target

from relay_layout.targets.matrix_products import product_workload
from topi_ext.machine.processor import Processor, processor_of
from topi_ext.spaces.direct import cheapest_direct, direct_knobs, tiled_loops
from topi_ext.spaces.register_tile import RegisterTile, conflicting_lines
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.word_forms import integer_form

TARGETS = {
    "avx512": {"mcpu": "x86-64-v4", "num-cores": 2},
    "avx2": {"mcpu": "x86-64-v3", "num-cores": 2},
    "neon": {"mtriple": "aarch64-linux-gnu", "mcpu": "cortex-a76", "num-cores": 2},
}


@pytest.mark.parametrize(
    ("name", "asks"), [("avx512", [False, True]), ("avx2", [True, False]), ("neon", [False])]
)
def test_kernels_with_and_without_prefetches_are_worth_trying(name: str, asks: list[bool]) -> None:
    """Those that the processor seldom gains by are estimated to be slower; boards have none."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS[name]}))
    workload = workload_for((1024, 2048, 7, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
    found = [
        (cycles, knobs.prefetch)
        for cycles, knobs in direct_knobs(workload, processor)
        if (knobs.order, knobs.tile_pixels, knobs.tile_channels) == ("channels", 4, 2) and knobs.parallel
    ]
    assert [prefetch for _, prefetch in sorted(found, reverse=True)] == asks


def cycles_by_channels(workload: ConvolutionWorkload) -> float:
    """Of the tile that is a row of seven pixels, and reads the image again for every vector of channels."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS["avx2"]}))
    return min(
        cycles
        for cycles, knobs in direct_knobs(workload, processor)
        if (knobs.order, knobs.tile_pixels, knobs.tile_channels) == ("channels", 7, 1)
    )


@pytest.mark.parametrize(
    ("layout", "ratio"), [("NCHW16c", 1.0), ("NHWC", 1.0), ("NCHW8c", 1.42)], ids=["block", "NHWC", "half"]
)
def test_pixels_that_strides_skip_are_no_traffic(layout: str, ratio: float) -> None:
    """They are as good as not there, but for halves of cache lines that come with the other half."""
    kernel = {"NHWC": "OHWI8o"}.get(layout, f"OIHW{layout[4:-1]}i8o")
    image, skipped = (
        workload_for((2048, 2048, size, 1, stride, 1), layout, kernel, "NCHW8c")
        for size, stride in ((7, 1), (14, 2))
    )
    assert cycles_by_channels(skipped) / cycles_by_channels(image) == pytest.approx(ratio, abs=0.01)


def test_rows_of_a_chunk_stay_in_the_cache() -> None:
    """Each tile of channels goes through them: few rows at a time read the image once."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS["avx2"]}))
    workload = workload_for((512, 1024, 32, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
    by_rows = {
        knobs.rows: cycles
        for cycles, knobs in direct_knobs(workload, processor)
        if (knobs.order, knobs.tile_pixels, knobs.tile_channels) == ("pixels", 4, 2)
    }
    image = 512 * 32 * 32 * 4
    assert by_rows[64] - by_rows[32] == pytest.approx(image * (1024 // 16 - 1) / 16, rel=0.2)
    assert min(by_rows, key=lambda rows: by_rows[rows]) < 64


def test_images_that_are_widened_are_copied_by_chunks_of_whole_tiles() -> None:
    processor = processor_of(Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2}))
    plain = workload_for((64, 64, 14, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
    form = integer_form(replace(plain, dtype="uint8", out_dtype="int32"), words="wide")
    tiles = {
        (knobs.tile_pixels, knobs.pad_at)
        for _, knobs in direct_knobs(form, processor)
        if knobs.order == "pixels"
    }
    assert {(4, "chunk"), (5, "stage")} <= tiles
    assert all((14 * 14 % pixels == 0) == (pad_at == "chunk") for pixels, pad_at in tiles)


@pytest.mark.parametrize(
    ("cpu", "tile", "spilling"), [("cortex-a72", (3, 2), (4, 2)), ("cortex-a53", (2, 2), (3, 2))]
)
def test_products_of_bytes_wait_in_registers(
    cpu: str, tile: tuple[int, int], spilling: tuple[int, int]
) -> None:
    processor = processor_of(target_for(cpu))
    plain = workload_for((64, 64, 56, 1, 1, 1), "NCHW8c", "OIHW8i8o", "NCHW8c")
    form = integer_form(replace(plain, dtype="uint8", out_dtype="int32"), signed_words=True, words="halves")
    tiles = {(knobs.tile_pixels, knobs.tile_channels) for _, knobs in direct_knobs(form, processor)}
    assert tile in tiles and spilling not in tiles
    chosen = cheapest_direct(form, processor)[1]
    assert (chosen.tile_pixels, chosen.tile_channels) == tile


def in_plain_rows(width: int, **changes: object) -> ConvolutionWorkload:
    plain = workload_for((32, 32, 28, 3, 1, 1), "NCHW", "OIHW", "NCHW")
    return replace(plain, in_height=28, in_width=width, **changes)


def test_the_vector_of_pixels_that_overlaps_the_one_before_is_counted() -> None:
    """Rows of 17 to 32 pixels are two vectors of 16."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS["avx512"]}))
    cycles = [tile_work(in_plain_rows(width), processor) for width in (16, 17, 32, 33)]
    assert cycles[0] < cycles[1] == cycles[2] < cycles[3]


@pytest.mark.parametrize("channels", [36, 48])
def test_three_vectors_of_a_group_are_one_tile(channels: int) -> None:
    """Tiles of two of them would be two tiles for each group, or cross into the next one."""
    plain = workload_for((4 * channels, 4 * channels, 28, 3, 1, 1), "NHWC", "GOHWI16o", "NHWC")
    processor = processor_of(Target({"kind": "llvm", **TARGETS["avx512"]}))
    assert cheapest_direct(replace(plain, groups=4), processor)[1].tile_channels == 3


def tile_work(workload: ConvolutionWorkload, processor: Processor) -> float:
    """Cycles of the tiles of one vector of pixels by one channel."""
    return next(
        tile.cycles
        for tile in tiled_loops(workload, processor)
        if (tile.tile_pixels, tile.tile_channels) == (1, 1)
    )


def test_short_sums_of_single_pixels_do_not_wait_for_each_other() -> None:
    """But on a core that executes in order they do."""
    workload = in_plain_rows(32, groups=32, dtype="float32")
    ahead = processor_of(Target({"kind": "llvm", **TARGETS["avx2"]}))
    in_order = replace(ahead, registers_in_flight=6)
    assert tile_work(workload, in_order) > 1.5 * tile_work(workload, ahead)


def test_pixels_that_a_stride_skips_are_shuffled_away() -> None:
    """Two vectors of neighbours hold every other pixel of one, which takes less than 16 loads."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS["avx512"]}))
    near = RegisterTile(in_plain_rows(64, strides=(1, 1)), processor, 16, 4, 2).cycles(1)
    strided = RegisterTile(in_plain_rows(64, strides=(1, 2)), processor, 16, 4, 2).cycles(1)
    assert near < strided < 4 * near


@pytest.mark.parametrize(
    ("target", "channels", "pixels", "expected"),
    [
        ("avx512", 1024, 10, 0),
        ("avx512", 1024, 14, 4),
        ("avx512", 512, 28, 8),
        ("avx512", 528, 28, 0),
        ("neon", 1024, 14, 0),
        ("neon", 4096, 14, 9),
    ],
)
def test_pixels_a_power_of_two_apart_evict_each_other(
    target: str, channels: int, pixels: int, expected: int
) -> None:
    """Of 4 KiB all pixels lie in one set of 32 KiB by eight ways, which keeps ten lines; of 2 KiB in two."""
    processor = processor_of(Target({"kind": "llvm", **TARGETS[target]}))
    rows = workload_for((channels, 64, 14, 1, 1, 1), "NHWC", "OHWI16o", "NHWC")
    assert conflicting_lines(rows, processor, pixels) == expected
    blocks = workload_for((channels, 64, 14, 1, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    assert conflicting_lines(blocks, processor, pixels) == 0


@pytest.mark.parametrize("rows", [2, 3, 5, 7])
def test_few_rows_are_one_tile_of_them_all(rows: int) -> None:
    """Each tile reads the weights again, from beyond the level-1 cache."""
    product = product_workload((1, rows, 1, 512), 1376, "float32")
    _, knobs = cheapest_direct(product, processor_of(Target({"kind": "llvm", **TARGETS["avx512"]})))
    assert knobs.tile_pixels == rows
