"""What takes times for a target: this machine, machines that a tracker lends, or a model of the core."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from relay_layout import host
from relay_layout.targets import BuildTarget

if TYPE_CHECKING:
    from topi_ext.tune.boards import BoardEvent
    from topi_ext.tune.measure import KernelMeasurer
    from topi_ext.tune.static_model import KernelModel
    from topi_ext.tune.tracker import RemoteDevice


def local_measurer(target: BuildTarget) -> "KernelMeasurer":
    """Measures on this machine; an error where it cannot run what is built for the target."""
    from relay_layout.artifact import check_runnable
    from relay_layout.bench.machine import describe_machine
    from relay_layout.lower.link import link_command
    from topi_ext.tune.measure import KernelMeasurer

    check_runnable(target.manifest(), name=f"target {target.name}")
    return KernelMeasurer(
        target.tvm_target,
        threads=target.threads,
        cpu=describe_machine()["cpu"],
        link=link_command(),
        builders=host.cpu_count(),
    )


def remote_measurer(
    target: BuildTarget,
    remote: "RemoteDevice",
    *,
    tell: Callable[[str], None],
    watch: "Callable[[BoardEvent], None]" = lambda event: None,
    builders: int | None = None,
) -> "KernelMeasurer":
    """Measures on all machines of the key; ``builders`` processes compile here, by default one per core."""
    from relay_layout.lower.link import link_command
    from topi_ext.tune.measure import KernelMeasurer

    return KernelMeasurer(
        target.tvm_target,
        threads=target.threads,
        cpu=f"rpc:{remote.key}",
        link=link_command(target.foreign_machine),
        remote=remote,
        builders=builders or host.cpu_count(),
        tell=tell,
        watch=watch,
    )


def core_model(target: BuildTarget) -> "KernelModel":
    """Runs nothing: times by llvm-mca's model of the target's core."""
    from topi_ext.tune.static_model import KernelModel

    return KernelModel(target.tvm_target, target.processor, target.facts.gigahertz)


__all__ = ["core_model", "local_measurer", "remote_measurer"]
