"""What takes times for a target: this machine, machines that a tracker lends, or a model of the core."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import tvm

from relay_layout.environment import host
from relay_layout.errors import TargetError
from relay_layout.targets import BuildTarget, CpuTarget, CudaTarget, require_cpu
from relay_layout.targets.cuda import PREFIX
from topi_ext.tune.measuring.timing import USUAL, USUAL_OF_GPUS, Timing

if TYPE_CHECKING:
    from topi_ext.tune.measuring.boards import BoardEvent
    from topi_ext.tune.measuring.measurement import Measurer
    from topi_ext.tune.measuring.tracker import RemoteDevice
    from topi_ext.tune.measuring.workplace import Workplace
    from topi_ext.tune.models.static_model import KernelModel


class _Measuring(Protocol):
    """How kernels of one kind of target are built and run to be measured."""

    @property
    def least_batch(self) -> int:
        """Kernels to build at a time, at least."""
        ...

    @property
    def builders_here(self) -> int:
        """Processes that build where the kernels run on this machine."""
        ...

    def runs_here(self) -> str:
        """The model of what runs kernels here; TargetError where that cannot run those of the target."""
        ...

    def measurer(self, workplace: "Workplace", timing: Timing | None) -> "Measurer":
        """``timing`` is the usual one if not given."""
        ...


@dataclass(frozen=True)
class _CpuMeasuring:
    target: CpuTarget

    @property
    def least_batch(self) -> int:
        return 1

    @property
    def builders_here(self) -> int:
        return host.cpu_count()

    def runs_here(self) -> str:
        from relay_layout.artifact import obstacle_here

        target = self.target
        obstacle = obstacle_here(target.manifest())
        if obstacle is not None:
            modelled = ", or model its core with --modelled" if target.architecture == "aarch64" else ""
            raise TargetError(
                f"target {target.name}: tuning runs kernels here: {obstacle}; name machines that can run "
                f"them with --rpc-tracker and --rpc-key{modelled}"
            )
        return host.cpu_model()

    def measurer(self, workplace: "Workplace", timing: Timing | None) -> "Measurer":
        from topi_ext.tune.measuring.cpu_measure import CpuMeasurer

        target = self.target
        return CpuMeasurer(
            target.tvm_target,
            workplace,
            threads=target.threads,
            features=target.features,
            timing=timing or USUAL,
        )


@dataclass(frozen=True)
class _CudaMeasuring:
    target: CudaTarget

    @property
    def least_batch(self) -> int:
        """One for each core: nvcc takes seconds for a kernel, the GPU no time at all."""
        return host.cpu_count()

    @property
    def builders_here(self) -> int:
        """One core launches kernels while others build."""
        return max(1, host.cpu_count() - 1)

    def runs_here(self) -> str:
        target = self.target
        arch, found = target.multiprocessor.arch, host.gpu_architecture()
        if not found:
            raise TargetError(
                f"target {target.name}: tuning runs kernels, and no GPU is found here; "
                f"tune on a machine with one of {arch}, or name such machines with --rpc-tracker"
            )
        if found != arch:
            raise TargetError(
                f"target {target.name}: tuning runs kernels, and this machine's GPU is {found}; "
                f"give --target {PREFIX}{found}"
            )
        return str(tvm.cuda(0).device_name or arch)

    def measurer(self, workplace: "Workplace", timing: Timing | None) -> "Measurer":
        from topi_ext.tune.measuring.gpu_measure import GpuMeasurer

        return GpuMeasurer(self.target.multiprocessor, workplace, timing=timing or USUAL_OF_GPUS)


def _measuring(target: BuildTarget) -> _Measuring:
    return _CudaMeasuring(target) if isinstance(target, CudaTarget) else _CpuMeasuring(require_cpu(target))


def local_measurer(
    target: BuildTarget,
    *,
    timing: Timing | None = None,
    builders: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> "Measurer":
    """Measures on this machine; an error where it cannot run what is built for the target.

    ``timing`` is the usual one and ``builders``, the processes that compile, as many as there are cores for
    them, if not given; ``stop`` is :class:`topi_ext.tune.measuring.workplace.Workplace`'s.
    """
    from relay_layout.lower.library.link import link_command
    from topi_ext.tune.measuring.workplace import Workplace

    measuring = _measuring(target)
    cpu = measuring.runs_here()
    here = Workplace(cpu, link_command(), builders=builders or measuring.builders_here, stop=stop)
    return measuring.measurer(here, timing)


def remote_measurer(
    target: BuildTarget,
    remote: "RemoteDevice",
    *,
    tell: Callable[[str], None],
    watch: "Callable[[BoardEvent], None]" = lambda event: None,
    timing: Timing | None = None,
    builders: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> "Measurer":
    """Measures on all machines of the key.

    ``timing`` and ``builders`` are as for :func:`local_measurer`, all cores building; ``tell``, ``watch`` and
    ``stop`` are :class:`topi_ext.tune.measuring.workplace.Workplace`'s.
    """
    from relay_layout.lower.library.link import link_command
    from topi_ext.tune.measuring.workplace import Workplace

    place = Workplace(
        f"rpc:{remote.key}",
        link_command(target.cross_triple),
        remote,
        builders or host.cpu_count(),
        tell,
        watch,
        stop,
    )
    return _measuring(target).measurer(place, timing)


def core_model(target: BuildTarget) -> "KernelModel":
    """Runs nothing: times by llvm-mca's model of the target's core."""
    from topi_ext.tune.models.static_model import KernelModel

    cpu = require_cpu(target)
    return KernelModel(cpu.tvm_target, cpu.processor, cpu.facts.gigahertz)


def least_batch(target: BuildTarget) -> int:
    """Kernels of the target to build and measure at a time, at least."""
    return _measuring(target).least_batch
