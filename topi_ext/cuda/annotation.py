"""The annotation of blocks that sum: the workload, and the knobs that their function was made for."""

import json

from topi_ext.cuda.depthwise_knobs import DepthwiseKnobs
from topi_ext.cuda.gemm_knobs import GemmKnobs
from topi_ext.cuda.winograd_knobs import WinogradGemmKnobs
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution, nhwc_class, nhwc_convolution

Kernel = tuple[GemmConvolution, GemmKnobs | WinogradGemmKnobs] | tuple[DepthwiseConvolution, DepthwiseKnobs]
"""What a kernel computes, and with which knobs."""


def describe_kernel(
    workload: GemmConvolution | DepthwiseConvolution, knobs: GemmKnobs | WinogradGemmKnobs | DepthwiseKnobs
) -> str:
    """One line of JSON."""
    return json.dumps({**json.loads(workload.to_json()), "knobs": knobs.to_dict()}, sort_keys=True)


def described_kernel(annotation: str) -> Kernel | None:
    """What :func:`describe_kernel` described; None of another annotation, and of an empty one."""
    fields = json.loads(annotation or "{}")
    if nhwc_class(fields.get("operator")) is None:
        return None
    knobs = fields.pop("knobs")
    workload = nhwc_convolution(json.dumps(fields))
    if isinstance(workload, DepthwiseConvolution):
        return workload, DepthwiseKnobs.from_dict(knobs)
    if knobs["algorithm"] == WinogradGemmKnobs.ALGORITHM:
        return workload, WinogradGemmKnobs.from_dict(knobs)
    return workload, GemmKnobs.from_dict(knobs)
