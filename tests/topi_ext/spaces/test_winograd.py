"""What the estimates of Winograd's kernels know of threads."""

from dataclasses import replace

import pytest
from kernel_harness import target_for
from kernel_networks import workload_for

from topi_ext.knobs import WinogradKnobs
from topi_ext.machine.processor import processor_of
from topi_ext.spaces.convolution import cheapest


@pytest.mark.parametrize(("threads", "staged"), [(2, True), (64, False)])
def test_stages_wait_for_all_threads(threads: int, staged: bool) -> None:
    """Three parallel regions on 64 threads take longer than the multiply-adds that they save."""
    processor = replace(processor_of(target_for("x86-64-v4")), threads=threads)
    workload = workload_for((32, 32, 28, 3, 1, 1), "NCHW16c", "OIHW16i16o", "NCHW16c")
    assert isinstance(cheapest(workload, processor)[1], WinogradKnobs) is staged
