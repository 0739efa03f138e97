"""The layout transforms that a choice of layouts weighs, as functions to measure."""

from collections.abc import Iterable, Iterator
from itertools import product

import numpy as np
import tvm
from tvm import relax, tirx

from relay_layout.choice.memory import same_memory
from relay_layout.choice.plan import LayoutPlan
from relay_layout.explanation.transforms import transforms_of
from relay_layout.graph import Value
from relay_layout.layout import Layout
from relay_layout.lower.passes import fuse_passes, legalize_passes
from relay_layout.lower.schedule import schedule_functions
from relay_layout.rewrite.moving import emit_transform
from relay_layout.targets import BuildTarget
from relay_layout.targets.transform_cost import transform_workload
from topi_ext.workloads.transform import TransformWorkload

MOST_SIZES = 5
"""Extents that are measured of all transforms between the same two layouts: a line goes through them."""


def chosen_transforms(plan: LayoutPlan) -> list[TransformWorkload]:
    """Those that the plan leaves to run, as far as records have a name for them; each once."""
    moves = ((each.value, each.source, each.target) for each in transforms_of(plan, plan.solution.signatures))
    found = (transform_workload(*move) for move in moves)
    return list(dict.fromkeys(workload for workload in found if workload is not None))


def considered_transforms(plan: LayoutPlan) -> list[TransformWorkload]:
    """Those that the solver weighs: from each layout that a tensor may have to each it may be read in."""
    found: dict[TransformWorkload, None] = {}
    for value in plan.graph.values():
        if value.shape is None:
            continue
        for source, target in product(*_ends(plan, value)):
            workload = transform_workload(value, source, target)
            if workload is not None and workload not in found and not same_memory(value, source, target):
                found[workload] = None
    return list(found)


def sampled(workloads: Iterable[TransformWorkload]) -> list[TransformWorkload]:
    """At most :data:`MOST_SIZES` between any two layouts: the smallest, the largest, and some between."""
    pairs: dict[tuple[str, ...], list[TransformWorkload]] = {}
    for each in dict.fromkeys(workloads):
        pair = each.axes, each.source_layout, each.target_layout, each.dtype
        pairs.setdefault(pair, []).append(each)
    return [workload for found in pairs.values() for workload in _spread(found)]


def transform_function(target: BuildTarget, workload: TransformWorkload) -> tirx.PrimFunc:
    """The scheduled function that compilation runs for a transform."""
    source, wanted = Layout.parse(workload.source_layout), Layout.parse(workload.target_layout)
    extents = source.shape(workload.shape, Layout.parse(workload.axes))
    data = relax.Var("data", relax.TensorType(extents, workload.dtype))
    builder = relax.BlockBuilder()
    with builder.function("main", [data]):
        with builder.dataflow():
            moved = emit_transform(builder, data, source, wanted, workload.dtype)
            result = builder.emit_output(moved)
        builder.emit_func_output(result)
    module = builder.finalize()
    with target.tvm_target:
        module = tvm.transform.Sequential([*legalize_passes(target), *fuse_passes(target)])(module)
        module, _ = schedule_functions(module, target)
    (function,) = (found for _, found in module.functions_items() if isinstance(found, tirx.PrimFunc))
    return function


def _ends(plan: LayoutPlan, value: Value) -> tuple[set[Layout], set[Layout]]:
    """The layouts that a tensor may be written in, and those that it may be read in."""
    written, read = {value.identity}, set()
    if value.producer is not None:
        place = value.producer.results.index(value)
        written = {signature.results[place] for signature in plan.signatures[value.producer]}
    for reader, position in value.consumers:
        read |= {signature.operands[position] for signature in plan.signatures[reader]}
    if value in plan.outputs:
        read.add(plan.outputs[value])
    return written, read


def _spread(workloads: list[TransformWorkload]) -> Iterator[TransformWorkload]:
    """Those of different sizes, evenly on a scale of ratios; of several with one size the first."""
    by_size: dict[int, TransformWorkload] = {}
    for workload in workloads:
        by_size.setdefault(workload.elements, workload)
    sizes = sorted(by_size)
    if len(sizes) <= MOST_SIZES:
        yield from (by_size[size] for size in sizes)
        return
    logarithms = np.log(sizes)
    wanted = np.linspace(logarithms[0], logarithms[-1], MOST_SIZES)
    places = {int(np.abs(logarithms - each).argmin()) for each in wanted}
    yield from (by_size[sizes[place]] for place in sorted(places))
