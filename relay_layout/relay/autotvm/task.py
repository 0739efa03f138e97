"""``autotvm.task``: the kernels that networks need, one task each."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tvm

from relay_layout.errors import InputError
from relay_layout.relay.build_module import altered, as_module, bind_params
from relay_layout.relay.building.targets import build_target
from relay_layout.relay.missing import missing_member, refuser
from relay_layout.targets import BuildTarget
from relay_layout.tuning.tasks import describe, is_dense, model_tasks
from topi_ext.family import Workload
from topi_ext.tune.space import Space
from topi_ext.workloads.convolution import ConvolutionWorkload
from topi_ext.workloads.separable import SeparableWorkload

__getattr__ = refuser(__name__, "tvm.autotvm.task")


@dataclass(frozen=True)
class ConfigEntity:
    """The knobs of one kernel by name; ``index`` is its place in the space, None where that is not known."""

    knobs: Mapping[str, Any]
    index: int | None = None

    def to_json_dict(self) -> dict[str, Any]:
        """Index and knobs."""
        return {"index": self.index, "entity": dict(self.knobs)}

    def __str__(self) -> str:
        named = ", ".join(f"{name}={value}" for name, value in self.knobs.items())
        return named if self.index is None else f"{named} #{self.index}"


class ConfigSpace:
    """All kernels of a task, those of the least estimated time first."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __len__(self) -> int:
        return len(self._space)

    def get(self, index: int) -> ConfigEntity:
        """The knobs at a place. IndexError where there are fewer."""
        return ConfigEntity(self._space.candidates[index].fields, index)

    def __iter__(self) -> Iterator[ConfigEntity]:
        return (self.get(index) for index in range(len(self)))

    def __repr__(self) -> str:
        return f"ConfigSpace({len(self)} kernels)"


@dataclass(frozen=True)
class Task:
    """One kernel, and how often the networks have it: ``weight``. One read from a log has no target."""

    workload: Workload
    build_target: BuildTarget | None = None
    weight: int = 1

    @property
    def name(self) -> str:
        """Such as ``conv2d 64x56x56 -> 64 3x3 NCHW16c``."""
        return describe(self.workload)

    @property
    def target(self) -> tvm.target.Target | None:
        """TVM's target."""
        return None if self.build_target is None else self.build_target.tvm_target

    @property
    def flop(self) -> int:
        """Operations: two for each multiply-add."""
        return 2 * int(self.workload.macs)

    @cached_property
    def config_space(self) -> ConfigSpace:
        """All kernels there are. InputError for a task without a target."""
        return ConfigSpace(Space(self.workload, self.resolved().machine))

    def resolved(self) -> BuildTarget:
        """The target. InputError where the task has none."""
        if self.build_target is None:
            raise InputError(
                f"task {self.name}: it was read from a log, which has no target; take it from "
                "autotvm.task.extract_from_program to tune it"
            )
        return self.build_target

    def __repr__(self) -> str:
        return f"Task({self.name})"

    def __getattr__(self, name: str) -> Any:
        raise missing_member(self, name, "tvm.autotvm.task.Task")


def extract_from_program(
    mod: Any,
    params: Mapping[str, Any] | None = None,
    target: Any = None,
    target_host: Any = None,
    ops: Collection[Any] | None = None,
) -> list[Task]:
    """The tasks of one module or function, as :func:`extract_from_multiple_program`."""
    return extract_from_multiple_program([mod], [params], target, target_host, ops)


def extract_from_multiple_program(
    mods: Sequence[Any],
    params: Sequence[Mapping[str, Any] | None],
    target: Any = None,
    target_host: Any = None,
    ops: Collection[Any] | None = None,
) -> list[Task]:
    """The kernels of several networks together, each once, those that are most work first.

    They are those that ``relay.build`` compiles within ``PassContext(opt_level=3)`` for the same target, in
    the layouts that it chooses with the logs applied here. ``ops`` keeps those of these operators of Relay,
    such as ``relay.op.get("nn.conv2d")``. Raises what ``relay.build`` raises.
    """
    resolved = build_target(target)
    modules, layouts = [], set()
    for mod, values in zip(mods, params, strict=True):
        with _at_level_three():
            module, layout = altered(bind_params(as_module(mod), values)[0], resolved)
        modules.append(module)
        layouts.add(layout)
    # What callbacks altered stays as it is; they are asked for all networks or for none.
    (layout,) = layouts or {"auto"}
    found = model_tasks(modules, resolved, {"desired_layout": layout})
    wanted = None if ops is None else {str(getattr(each, "name", each)) for each in ops}
    return [
        Task(each.workload, resolved, each.weight)
        for each in found.tasks
        if wanted is None or operator_name(each.workload) in wanted
    ]


def operator_name(workload: Workload) -> str:
    """Relay's operator that a kernel computes, the convolution of a depthwise and a pointwise one."""
    if isinstance(workload, SeparableWorkload):
        return "nn.conv2d"
    if isinstance(workload, ConvolutionWorkload):
        if is_dense(workload):
            return "nn.dense"
        if "H" not in workload.data_layout:
            return "nn.conv1d"
        return f"nn.{workload.operator}"
    return "nn.conv2d"


@contextmanager
def _at_level_three() -> Iterator[None]:
    """Where layouts are chosen, unless a context switches that off by name."""
    disabled = [str(name) for name in tvm.transform.PassContext.current().disabled_pass or ()]
    with tvm.transform.PassContext(opt_level=3, disabled_pass=disabled):
        yield
