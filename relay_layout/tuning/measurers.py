"""What takes times for a target: this machine, machines that a tracker lends, or a model of the core."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import tvm

from relay_layout import host
from relay_layout.errors import TargetError
from relay_layout.targets import BuildTarget, CpuTarget, CudaTarget, require_cpu
from relay_layout.targets.cuda import PREFIX

if TYPE_CHECKING:
    from topi_ext.tune.measuring.boards import BoardEvent
    from topi_ext.tune.measuring.measurement import Measurer
    from topi_ext.tune.measuring.tracker import RemoteDevice
    from topi_ext.tune.models.static_model import KernelModel


class _Measuring(Protocol):
    """How kernels of one kind of target are built and run to be measured."""

    @property
    def least_batch(self) -> int:
        """Kernels to build at a time, at least."""
        ...

    def here(self, **options: Any) -> "Measurer":
        """Measures on this machine; TargetError where it cannot run what is built for the target."""
        ...

    def elsewhere(self, **options: Any) -> "Measurer":
        """Measures on machines of a tracker."""
        ...


@dataclass(frozen=True)
class _CpuMeasuring:
    target: CpuTarget

    @property
    def least_batch(self) -> int:
        return 1

    def here(self, **options: Any) -> "Measurer":
        from relay_layout.artifact import obstacle_here
        from relay_layout.lower.library.link import link_command
        from topi_ext.tune.measuring.measure import KernelMeasurer

        target = self.target
        obstacle = obstacle_here(target.manifest())
        if obstacle is not None:
            modelled = ", or model its core with --modelled" if target.architecture == "aarch64" else ""
            raise TargetError(
                f"target {target.name}: tuning runs kernels here: {obstacle}; name machines that can run "
                f"them with --rpc-tracker and --rpc-key{modelled}"
            )
        return KernelMeasurer(
            target.tvm_target,
            threads=target.threads,
            cpu=host.cpu_model(),
            link=link_command(),
            **{"builders": host.cpu_count(), **options},
        )

    def elsewhere(self, **options: Any) -> "Measurer":
        from topi_ext.tune.measuring.measure import KernelMeasurer

        target = self.target
        return KernelMeasurer(target.tvm_target, threads=target.threads, features=target.features, **options)


@dataclass(frozen=True)
class _CudaMeasuring:
    target: CudaTarget

    @property
    def least_batch(self) -> int:
        """One for each core: nvcc takes seconds for a kernel, the GPU no time at all."""
        return host.cpu_count()

    def here(self, **options: Any) -> "Measurer":
        from relay_layout.lower.library.link import link_command
        from topi_ext.tune.measuring.gpu_measure import GpuMeasurer

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
        return GpuMeasurer(
            target.multiprocessor,
            cpu=str(tvm.cuda(0).device_name or arch),
            link=link_command(),
            # One core launches kernels while others build.
            **{"builders": max(1, host.cpu_count() - 1), **options},
        )

    def elsewhere(self, **options: Any) -> "Measurer":
        from topi_ext.tune.measuring.gpu_measure import GpuMeasurer

        return GpuMeasurer(self.target.multiprocessor, **options)


def _measuring(target: BuildTarget) -> _Measuring:
    return _CudaMeasuring(target) if isinstance(target, CudaTarget) else _CpuMeasuring(require_cpu(target))


def local_measurer(target: BuildTarget, **options: Any) -> "Measurer":
    """Measures on this machine; an error where it cannot run what is built for the target.

    ``options`` are the measurer's own, such as ``builders``, the processes that compile.
    """
    return _measuring(target).here(**options)


def remote_measurer(
    target: BuildTarget,
    remote: "RemoteDevice",
    *,
    tell: Callable[[str], None],
    watch: "Callable[[BoardEvent], None]" = lambda event: None,
    **options: Any,
) -> "Measurer":
    """Measures on all machines of the key.

    ``options`` are the measurer's own, such as ``builders``, the processes that compile here: by default one
    per core.
    """
    from relay_layout.lower.library.link import link_command

    return _measuring(target).elsewhere(
        cpu=f"rpc:{remote.key}",
        link=link_command(target.cross_triple),
        remote=remote,
        tell=tell,
        watch=watch,
        **{"builders": host.cpu_count(), **options},
    )


def core_model(target: BuildTarget) -> "KernelModel":
    """Runs nothing: times by llvm-mca's model of the target's core."""
    from topi_ext.tune.models.static_model import KernelModel

    cpu = require_cpu(target)
    return KernelModel(cpu.tvm_target, cpu.processor, cpu.facts.gigahertz)


def least_batch(target: BuildTarget) -> int:
    """Kernels of the target to build and measure at a time, at least."""
    return _measuring(target).least_batch
