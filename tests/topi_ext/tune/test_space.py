"""The candidates of a workload: one that is estimated alone is the one of the whole space."""

import random

import pytest

from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.family import Machine, Workload
from topi_ext.machine.processor import Processor
from topi_ext.tune.space import Space
from topi_ext.workloads.convolution import ConvolutionWorkload

WINDOW = ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))
GPU = MULTIPROCESSORS["sm_90"]
OF_GPUS = {
    "product": GemmConvolution(1, 14, 14, 32, 64, *WINDOW, 1, "float32"),
    "depthwise": DepthwiseConvolution(1, 14, 14, 64, 64, *WINDOW, 64, "float16"),
}


def check(workload: Workload, machine: Machine) -> set[str]:
    """Estimates some of a space one by one; the algorithms that were among them."""
    space = Space(workload, machine)
    found = random.Random(0).sample(space.candidates, min(len(space), 40))
    for candidate in found:
        alone = Space(workload, machine).estimated(candidate.fields)
        assert alone is not None and alone.key == candidate.key
        assert alone.cycles == pytest.approx(candidate.cycles)
        assert space.features(alone) == pytest.approx(space.features(candidate))
    return {str(candidate.fields["algorithm"]) for candidate in found}


@pytest.mark.parametrize(
    ("name", "algorithms"), [("product", {"implicit_gemm", "winograd"}), ("depthwise", {"depthwise"})]
)
def test_knobs_of_gpus_are_estimated_without_the_others(name: str, algorithms: set[str]) -> None:
    assert check(OF_GPUS[name], GPU) == algorithms


def test_knobs_of_processors_are_estimated(workload: ConvolutionWorkload, processor: Processor) -> None:
    assert "direct" in check(workload, processor)


def test_what_does_not_fit_has_no_estimate() -> None:
    assert Space(OF_GPUS["product"], GPU).estimated({"algorithm": "implicit_gemm"}) is None


def test_what_is_not_in_the_space_has_no_estimate(
    workload: ConvolutionWorkload, processor: Processor
) -> None:
    space = Space(workload, processor)
    direct = next(each for each in space.candidates if each.fields["algorithm"] == "direct")
    other = {**direct.fields, "prefetch": 77}
    assert space.find(other) is None and space.estimated(other) is None
