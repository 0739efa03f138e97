"""Whole networks to machine code of GPUs, and what reports say of them. Needs nvcc and no GPU."""

import json
import re
from pathlib import Path

import pytest
from qdq_graphs import QdqGraph

import relay_layout
from relay_layout import models
from relay_layout.lower.library.device_code import stored_code
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.codegen.tensor_maps import ENCODE_TILED
from topi_ext.cuda.codegen.window_maps import ENCODE_WINDOWS
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.workload import GemmConvolution
from topi_ext.tune.records.log import append
from topi_ext.tune.records.record import TuningRecord

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


@pytest.mark.parametrize(
    ("layout", "source"),
    [pytest.param("NCHW32c", "default", marks=pytest.mark.slow), ("NCHW", "fallback")],
)
def test_bytes_compile_in_every_layout(layout: str, source: str) -> None:
    graph = QdqGraph()
    result = graph.convolution(graph.input("x", (1, 32, 7, 6)), (32, 32, 3, 3), pads=[1, 1, 1, 1])
    compiled = relay_layout.compile(graph.model(result), target="cuda-sm_80", desired_layout=layout)
    kernels = compiled.manifest.builds[0].report["kernels"]
    assert {name: count for name, count in kernels.items() if count} == {source: 1}


def test_products_by_wgmma_are_compiled_for_the_one_gpu_that_has_it(tmp_path: Path) -> None:
    """One source for all kernels of a network: machine code of sm_90a, which an artifact for sm_90 holds."""
    builder = models.NetworkBuilder("large")
    image = builder.input("input", (32, 128, 28, 28))
    network = models.to_relax(
        builder.build({"output": builder.convolution(image, "conv", 128, 3, bias=True)})
    )
    report = tmp_path / "report.json"
    for target, instruction in (("cuda-sm_90", "wgmma"), ("cuda-sm_90+nowgmma", "mma")):
        compiled = relay_layout.compile(
            network, target=target, desired_layout="NHWC", precision="fp16", report=report
        )
        (described,) = json.loads(report.read_text())["targets"]
        (product,) = [call for call in described["calls"] if call["operator"] == "gemm_conv2d"]
        assert product["knobs"]["instruction"] == instruction
        assert compiled.manifest.builds[0].target["arch"] == "sm_90"
        library = tmp_path / f"{instruction}.so"
        library.write_bytes(compiled.contents[0].library)
        (code,) = stored_code(library).values()
        assert code.startswith(b"\x7fELF")


def test_an_artifact_holds_kernels_with_bulk_copies(tmp_path: Path) -> None:
    """As a record asks for; what launches them knows which of their arguments are tensor maps."""
    builder = models.NetworkBuilder("bulk")
    image = builder.input("input", (2, 64, 14, 14))
    found = builder.relu(builder.convolution(image, "window", 64, 3, padding=1, bias=True), "relu")
    found = builder.convolution(found, "pointwise", 64, 1, bias=True)
    network = models.to_relax(builder.build({"output": found}))
    knobs = GemmKnobs("wgmma", 64, 64, 32, 4, 1, 2, copies="bulk")
    records, report = tmp_path / "records.jsonl", tmp_path / "report.json"
    for size in (3, 1):
        padding = (size // 2,) * 4
        work = GemmConvolution(2, 14, 14, 64, 64, (size, size), (1, 1), padding, (1, 1), 1, "float16")
        append(records, TuningRecord(work, "sm_90", 1, knobs.to_dict(), (1e-6,) * 3, cpu="H100"))
    compiled = relay_layout.compile(
        network, target="cuda-sm_90", precision="fp16", tuning_records=[records], report=report
    )
    (described,) = json.loads(report.read_text())["targets"]
    products = [call for call in described["calls"] if call["operator"] == "gemm_conv2d"]
    assert [call["knobs"]["copies"] for call in products] == ["bulk", "bulk"]
    library = compiled.contents[0].library
    assert ENCODE_TILED.encode() in library and ENCODE_WINDOWS.encode() in library
    assert re.search(rb"cp\.async\.bulk\.tensor\.4d", library) is not None
    # Behind the names of a launch's parameters: how many arguments, and for each of them 1 for a map.
    tags = re.findall(rb"tirx\.use_dyn_shared_memory(.{8})((?:[\0\1]\0{3})*)", bytes(library), re.DOTALL)
    maps = [int.from_bytes(count, "little") for count, _ in tags]
    assert [found.count(b"\1\0\0\0") for (_, found), count in zip(tags, maps, strict=True) if count] == [2, 2]


@pytest.mark.parametrize(
    ("options", "algorithm"), [({}, "Winograd F(4,3)"), ({"winograd": False}, "implicit GEMM")]
)
def test_winograd_is_chosen_by_estimate_and_can_be_ruled_out(
    options: dict[str, bool], algorithm: str, tmp_path: Path
) -> None:
    builder = models.NetworkBuilder("large")
    image = builder.input("input", (32, 128, 28, 28))
    found = builder.convolution(image, "conv", 128, 3, padding=1, bias=True)
    network = models.to_relax(builder.build({"output": builder.relu(found, "relu")}))
    report = tmp_path / "report.json"
    relay_layout.compile(
        network, target="cuda-sm_90", desired_layout="NHWC", shipped_records=False, report=report, **options
    )
    (target,) = json.loads(report.read_text())["targets"]
    (product,) = [call for call in target["calls"] if call["operator"] == "gemm_conv2d"]
    assert (product["algorithm"], product["source"]) == (algorithm, "default")
    assert product["gigaflop"] == pytest.approx(2e-9 * 32 * 28 * 28 * 128 * 128 * 9)
    assert product["workload"]["kernel"] == [3, 3]
    names = [call["function"] for call in target["calls"]]
    assert len([name for name in names if "winograd" in name]) == (3 if "F(4" in algorithm else 0)


def test_a_report_tells_products_and_depthwise_kernels(tmp_path: Path) -> None:
    builder = models.NetworkBuilder("both")
    found = builder.convolution(builder.input("input", (1, 32, 8, 8)), "first", 64, 1, bias=True)
    found = builder.convolution(found, "second", 64, 3, padding=1, groups=64, bias=True)
    network = models.to_relax(builder.build({"output": found}))
    report = tmp_path / "report.json"
    relay_layout.compile(network, target="cuda-sm_90", desired_layout="NHWC", report=report)
    (target,) = json.loads(report.read_text())["targets"]
    calls = {call["operator"]: call for call in target["calls"] if call["operator"]}
    assert calls.keys() == {"gemm_conv2d", "depthwise_conv2d_nhwc"}
    product, depthwise = calls["gemm_conv2d"], calls["depthwise_conv2d_nhwc"]
    assert (product["source"], product["algorithm"]) == ("default", "implicit GEMM")
    assert product["workload"]["out_channels"] == 64
    assert product["gigaflop"] == pytest.approx(2e-9 * 64 * 64 * 32)
    assert product["estimate_us"] > 0
    assert (depthwise["source"], depthwise["algorithm"]) == ("default", "direct")
    assert depthwise["gigaflop"] == pytest.approx(2e-9 * 64 * 64 * 9)
    assert depthwise["knobs"]["algorithm"] == "depthwise"
