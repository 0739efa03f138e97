"""What takes times for a target: this machine, machines that a tracker lends, or a model of the core."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tvm

from relay_layout import host
from relay_layout.errors import TargetError
from relay_layout.targets import BuildTarget, CudaTarget
from relay_layout.targets.cuda import PREFIX

if TYPE_CHECKING:
    from topi_ext.tune.boards import BoardEvent
    from topi_ext.tune.measurement import Measurer
    from topi_ext.tune.static_model import KernelModel
    from topi_ext.tune.tracker import RemoteDevice


def local_measurer(target: BuildTarget) -> "Measurer":
    """Measures on this machine; an error where it cannot run what is built for the target."""
    from relay_layout.artifact import check_runnable
    from relay_layout.lower.link import link_command
    from topi_ext.tune.measure import KernelMeasurer

    if isinstance(target, CudaTarget):
        return _gpu_measurer(target)
    check_runnable(target.manifest(), name=f"target {target.name}")
    return KernelMeasurer(
        target.tvm_target,
        threads=target.threads,
        cpu=host.cpu_model(),
        link=link_command(),
        builders=host.cpu_count(),
    )


def _gpu_measurer(target: CudaTarget) -> "Measurer":
    from relay_layout.lower.link import link_command
    from topi_ext.tune.gpu_measure import GpuMeasurer

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
        builders=max(1, host.cpu_count() - 1),
    )


def remote_measurer(
    target: BuildTarget,
    remote: "RemoteDevice",
    *,
    tell: Callable[[str], None],
    watch: "Callable[[BoardEvent], None]" = lambda event: None,
    builders: int | None = None,
) -> "Measurer":
    """Measures on all machines of the key; ``builders`` processes compile here, by default one per core."""
    from relay_layout.lower.link import link_command
    from topi_ext.tune.gpu_measure import GpuMeasurer
    from topi_ext.tune.measure import KernelMeasurer

    common: dict[str, Any] = {
        "cpu": f"rpc:{remote.key}",
        "link": link_command(target.foreign_machine),
        "remote": remote,
        "builders": builders or host.cpu_count(),
        "tell": tell,
        "watch": watch,
    }
    if isinstance(target, CudaTarget):
        return GpuMeasurer(target.multiprocessor, **common)
    return KernelMeasurer(target.tvm_target, threads=target.threads, features=target.features, **common)


def core_model(target: BuildTarget) -> "KernelModel":
    """Runs nothing: times by llvm-mca's model of the target's core."""
    from topi_ext.tune.static_model import KernelModel

    return KernelModel(target.tvm_target, target.processor, target.facts.gigahertz)


__all__ = ["core_model", "local_measurer", "remote_measurer"]
