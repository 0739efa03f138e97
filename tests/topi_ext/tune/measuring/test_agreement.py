"""What a measured kernel and the reference are given, so that their results can be compared."""

from dataclasses import replace

import numpy as np
import pytest
from kernel_reference import convolve
from tvm.target import Target

from topi_ext.kernel import kernel_arguments
from topi_ext.knobs import WinogradKnobs
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import knob_space
from topi_ext.tune.measuring.agreement import reference_knobs, sample
from topi_ext.winograd import winograd_matrices
from topi_ext.workloads.convolution import ConvolutionWorkload, SpatialAxis, volume_workload

TARGET = Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 2})
IMAGE = ConvolutionWorkload(
    batch=1,
    in_channels=16,
    out_channels=16,
    in_height=4,
    in_width=4,
    kernel=(3, 3),
    strides=(1, 1),
    padding=(0, 0, 0, 0),
    dilation=(1, 1),
    groups=1,
    data_layout="NHWC",
    kernel_layout="HWIO",
    out_layout="NHWC",
    dtype="float32",
    out_dtype="float32",
)
LAYOUTS = {"data_layout": "NDHWC", "kernel_layout": "DHWIO", "out_layout": "NDHWC"}
VOLUME = volume_workload(replace(IMAGE, **LAYOUTS), SpatialAxis(3, 3, 1, 0, 0, 1))


@pytest.mark.parametrize("workload", [IMAGE, VOLUME], ids=["image", "volume"])
def test_winograd_gets_the_weights_of_the_reference(workload: ConvolutionWorkload) -> None:
    """A product for each place of a tile, and back, is the convolution by the weights as they were."""
    processor = processor_of(TARGET)
    knobs = next(
        knobs
        for _, knobs in knob_space(workload, processor)
        if isinstance(knobs, WinogradKnobs) and (knobs.tile, knobs.order) == (2, "pixels")
    )
    ours, theirs = sample(workload, knobs, reference_knobs(workload, processor))
    assert [array.shape for array in ours] == [shape for shape, _ in kernel_arguments(workload, knobs)[:-1]]
    data = theirs[0].reshape(-1, 4, 4, 16)
    plain = theirs[1].reshape(-1, 3, 3, 16, 16)
    expected = sum(
        convolve(plane.transpose(2, 0, 1)[None], weight.transpose(3, 2, 0, 1))
        for plane, weight in zip(data, plain, strict=True)
    )
    matrices = winograd_matrices(2)
    spread, back = (np.array(matrix, float) for matrix in (matrices.data, matrices.result))
    found = np.zeros((16, 2, 2))
    places = ours[1].transpose(0, 2, 1, 3).reshape(4, 4, len(data), 16, 16)
    for plane, weight in zip(data, np.moveaxis(places, 2, 0), strict=True):
        tile = np.einsum("ah,hwi,bw->abi", spread, plane, spread)
        found += np.einsum("xa,abi,abio,yb->oxy", back, tile, weight, back)
    np.testing.assert_allclose(found, expected[0], rtol=1e-4, atol=1e-4)
