"""Whole networks to machine code of GPUs, and what reports say of them. Needs nvcc and no GPU."""

import json
from pathlib import Path

import pytest
from qdq_graphs import QdqGraph

import relay_layout
from relay_layout import models
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
