"""What follows from a convolution for the loops of its kernels."""

from dataclasses import replace

import pytest
from kernel_networks import workload_for

from topi_ext.workloads.facts import vector_steps


@pytest.mark.parametrize(
    ("layout", "kernel_layout", "channels", "steps"),
    [
        ("NCHW8c", "OIHW2i8o4i", 64, 2),
        ("NCHW16c", "OIHW4i16o4i", 64, 4),
        ("NHWC", "OHWI16o4i", 64, 4),
        ("NHWC", "OHWI16o4i", 24, 2),
        ("NHWC", "OHWI16o4i", 20, 1),
        ("NCHW4c", "OIHW4o4i", 64, 1),
    ],
)
def test_words_of_bytes_are_loaded_together(
    layout: str, kernel_layout: str, channels: int, steps: int
) -> None:
    floats = workload_for((channels, 64, 14, 1, 1, 1), layout, kernel_layout, layout)
    assert vector_steps(replace(floats, dtype="int8", out_dtype="int32"), 7) == steps
