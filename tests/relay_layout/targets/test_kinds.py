"""What is done for one kind of target alone."""

import pytest

from relay_layout.errors import TargetError
from relay_layout.targets import BuildTarget, require_cpu, require_cuda, resolve_target
from relay_layout.tuning.analysis import analyse_models
from relay_layout.tuning.measurers import core_model, least_batch

CPU, GPU = resolve_target("x86-64-v3"), resolve_target("cuda-sm_80")


def test_a_target_of_the_kind_is_itself() -> None:
    assert require_cpu(CPU) is CPU and require_cuda(GPU) is GPU


@pytest.mark.parametrize(
    "asked",
    [require_cpu, core_model, lambda target: next(analyse_models(["resnet18"], target, {}))],
    ids=["target", "model", "analysis"],
)
def test_analysis_is_for_cpus(asked: object) -> None:
    assert callable(asked)
    with pytest.raises(TargetError) as raised:
        asked(GPU)
    assert str(raised.value) == "target cuda-sm_80: only kernels of CPUs are analysed; give a CPU target"


def test_what_measures_gpus_is_not_for_cpus() -> None:
    with pytest.raises(TargetError) as raised:
        require_cuda(CPU)
    assert str(raised.value) == "target 'x86-64-v3' is none of a GPU; use one such as cuda-sm_90"


@pytest.mark.parametrize(("target", "least"), [(CPU, 1), (GPU, 5)], ids=["cpu", "gpu"])
def test_kernels_of_gpus_are_built_on_all_cores(
    target: BuildTarget, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_layout.environment.host.cpu_count", lambda: 5)
    assert least_batch(target) == least
