"""The inner loops of a network's kernels, as they are chosen and as they would be without records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from relay_layout.errors import RelayLayoutError
from relay_layout.targets import BuildTarget, require_cpu
from relay_layout.tuning.tasks import model_tasks
from topi_ext.chooser import KernelChooser
from topi_ext.knobs import Knobs, WinogradKnobs
from topi_ext.tune.models.machine_code import Analysis
from topi_ext.tune.models.static_model import KernelModel
from topi_ext.tune.task import Task
from topi_ext.workloads.convolution import ConvolutionWorkload

GOAL = 0.9
"""The share of the core's multiply-adds that an inner loop is to reach."""


@dataclass(frozen=True)
class KernelAnalysis:
    """One kernel: its inner loop and modelled microseconds; or ``error`` says why there are none.

    ``attainable``: the largest share of the core's multiply-adds that the loop could reach, see
    :meth:`topi_ext.tune.models.static_model.KernelModel.attainable`.
    """

    knobs: Knobs
    source: str
    loop: Analysis | None = None
    attainable: float = 1.0
    microseconds: float = 0.0
    error: str = ""

    @property
    def algorithm(self) -> str:
        """Algorithm and register tile, such as ``direct 7x2``."""
        knobs = self.knobs
        name = f"winograd{knobs.tile}" if isinstance(knobs, WinogradKnobs) else "direct"
        return f"{name} {knobs.tile_pixels}x{knobs.tile_channels}"

    @property
    def reaches_goal(self) -> bool:
        """Is the inner loop busy enough, and without spills?"""
        return self._reaches(GOAL)

    @property
    def reaches_attainable(self) -> bool:
        """The same, of what the loop could reach."""
        return self._reaches(GOAL * self.attainable)

    def _reaches(self, share: float) -> bool:
        return self.loop is not None and self.loop.share >= share and not self.loop.loop.spills


@dataclass(frozen=True)
class TaskAnalysis:
    """A task with the kernel that is compiled for it, and the one that is without records."""

    task: Task
    chosen: KernelAnalysis
    default: KernelAnalysis


def analyse_models(
    models: Sequence[Any], target: BuildTarget, options: Mapping[str, Any]
) -> Iterator[TaskAnalysis]:
    """The kernels of several models together, most work first; ``options`` are those of ``model_tasks``.

    Raises members of :class:`RelayLayoutError`, such as where the analyser is missing.
    """
    cpu = require_cpu(target)
    model = KernelModel(cpu.tvm_target, cpu.processor, cpu.facts.gigahertz)
    untuned = replace(target.kernels, records=None)
    for task in model_tasks(models, target, options).tasks:
        yield TaskAnalysis(task, _analyse(model, target.kernels, task), _analyse(model, untuned, task))


def _analyse(model: KernelModel, kernels: KernelChooser, task: Task) -> KernelAnalysis:
    workload = task.workload
    assert isinstance(workload, ConvolutionWorkload)
    choice = kernels.choose(workload)
    try:
        loop = model.analysis(workload, choice.knobs)
        attainable = model.attainable(workload, loop)
        microseconds = model.seconds(workload, choice.knobs) * 1e6
    except RelayLayoutError as error:
        return KernelAnalysis(choice.knobs, choice.source, error=str(error))
    return KernelAnalysis(choice.knobs, choice.source, loop, attainable, microseconds)
