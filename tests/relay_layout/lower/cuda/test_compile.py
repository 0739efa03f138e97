"""Whole networks to machine code of GPUs, and what reports say of them. Needs nvcc and no GPU."""

import json
from pathlib import Path

import pytest
from qdq_graphs import QdqGraph

import relay_layout
from relay_layout import models
from relay_layout.lower.device_code import stored_code
from topi_ext.cuda.nvcc import find_nvcc

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
