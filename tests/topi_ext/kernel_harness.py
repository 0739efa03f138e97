"""Compiling kernels and running them between guard zones."""

import platform
from collections.abc import Callable, Sequence
from typing import Any

import kernel_bounds
import numpy as np
import tvm_ffi
from numpy.typing import NDArray
from tvm import te, tirx
from tvm.s_tir import Schedule
from tvm.s_tir.dlight import ScheduleRule
from tvm.target import Target

from topi_ext.chooser import KernelChooser
from topi_ext.codegen.build import compile_kernel
from topi_ext.machine.processor import processor_of
from topi_ext.rules.convolution import Convolution
from topi_ext.rules.cpu import cpu_rules
from topi_ext.schedule.cpu.loops import LoopNest

Array = NDArray[Any]

LINE = 64
"""Bytes; arguments begin one element after a multiple, for kernels may not rely on more."""

MARGIN = 4096
"""Bytes on either side of an array that no kernel may touch."""

_FILLS = (0xFF, 0x7E)
"""Margins are filled with these bytes: NaN, and about 8e37 as a float. A maximum hides one at most."""


def cpu_features() -> set[str]:
    try:
        with open("/proc/cpuinfo") as lines:
            return {word for line in lines if line.startswith("flags") for word in line.split()}
    except OSError:
        return set()


def host_cpus() -> list[str | None]:
    """The instruction sets to test that this machine can execute; None is the least common one."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return [None]
    features = cpu_features()
    found: list[str | None] = []
    if {"avx2", "fma"} <= features:
        found.append("x86-64-v3")
    if "avx512f" in features:
        found.append("x86-64-v4")
    return found or [None]


def pair_cpus() -> list[str | None]:
    """As :func:`host_cpus`, and one that multiplies pairs of bfloat16 where this machine does."""
    multiplies = {"avx512_bf16", "avx512vl"} <= cpu_features()
    return [*host_cpus(), *(["znver4"] if multiplies else [])]


def target_for(cpu: str | None, cores: int = 2) -> Target:
    arm = cpu is not None and cpu.startswith(("cortex", "neoverse"))
    triple = {"mtriple": "aarch64-linux-gnu"} if arm else {}
    return Target({"kind": "llvm", "num-cores": cores, **triple, **({"mcpu": cpu} if cpu else {})})


def prim_func(tensors: Sequence[te.Tensor], index_dtype: str | None = None) -> tirx.PrimFunc:
    """What Relax makes of a tensor expression; ``index_dtype`` "int64" is what its ``call_te`` asks for."""
    func = te.create_prim_func(list(tensors), index_dtype)
    return func.with_attr("global_symbol", "main")


def apply_rules(func: tirx.PrimFunc, target: Target) -> tuple[str, Schedule]:
    """The first rule that takes ``func``, as dlight would find it, and its schedule."""
    for rule in cpu_rules(KernelChooser(processor_of(target))):
        schedule = rule.apply(func, target, False)
        if schedule is not None:
            return type(rule).__name__, schedule
    raise AssertionError("no rule takes the function")


def convolution_rule(target: Target) -> Convolution:
    """The rule of convolutions, with the kernels that are the best by estimate."""
    return Convolution(KernelChooser(processor_of(target)))


def scheduled_by(rule: ScheduleRule, func: tirx.PrimFunc, target: Target) -> Schedule:
    schedule = rule.apply(func, target, False)
    assert isinstance(schedule, Schedule), f"{type(rule).__name__} does not take the function"
    return schedule


def compile_function(func: tirx.PrimFunc, target: Target) -> Any:
    return compile_kernel(func, target)


def binary_results(
    compute: Callable[..., te.Tensor], left: Array, right: Array, target: Target | None = None
) -> Array:
    """What ``compute`` makes of two arrays of a type, broadcast; without a target, for the best CPU."""
    target = target or target_for(host_cpus()[-1])
    shape = np.broadcast_shapes(left.shape, right.shape)
    sides = [te.placeholder(side.shape, str(side.dtype)) for side in (left, right)]
    func = prim_func([*sides, compute(*sides, shape)])
    library = compile_function(scheduled_by(LoopNest(), func, target).mod["main"], target)
    return run_guarded(library, [left, right], shape, str(left.dtype))


def run_guarded(library: Any, inputs: Sequence[Array], shape: Sequence[int], dtype: str = "float32") -> Array:
    """Call ``main`` with every array between guard zones, once for each filling of the zones.

    A read beyond an array changes the result from one call to the other, a write beyond it changes
    the zone; the output starts as part of the zone, so that an element never written shows as well.
    """
    results = []
    for fill in _FILLS:
        zones, views = [], []
        for array in inputs:
            zone, view = _guarded(array.shape, array.dtype, fill)
            view[...] = array
            zones.append(zone)
            views.append(view)
        zone, view = _guarded(shape, dtype, fill)
        zones.append(zone)
        views.append(view)
        before = [zone.copy() for zone in zones]
        library["main"](*[tvm_ffi.from_dlpack(view) for view in views])
        for place, (zone, kept, view) in enumerate(zip(zones, before, views, strict=True)):
            start = view.ctypes.data - zone.ctypes.data
            outside = np.ones(zone.size, bool)
            if place == len(inputs):
                outside[start : start + view.nbytes] = False
            touched = np.flatnonzero((zone != kept) & outside)
            message = f"argument {place} written at byte {touched[:1] - start} of {view.nbytes}"
            assert touched.size == 0, message
        results.append(views[-1].copy())
    first, second = results
    differing = np.flatnonzero(first.reshape(-1).view("uint8") != second.reshape(-1).view("uint8"))
    message = f"reads beyond an argument, or leaves output unwritten, at byte {differing[:1]}"
    assert differing.size == 0, message
    return first


def run_function(
    library: Any, inputs: Sequence[Array], outputs: Sequence[tuple[Sequence[int], str]]
) -> list[Array]:
    """Outputs of shapes and dtypes of a function that may leave a part of them; every byte starts as 255."""
    views = [_guarded(array.shape, array.dtype, 255)[1] for array in inputs]
    for view, array in zip(views, inputs, strict=True):
        view[...] = array
    views += [_guarded(shape, dtype, 255)[1] for shape, dtype in outputs]
    library["main"](*[tvm_ffi.from_dlpack(view) for view in views])
    return views[len(inputs) :]


def _guarded(shape: Sequence[int], dtype: Any, fill: int) -> tuple[NDArray[np.uint8], Array]:
    element = np.dtype(dtype).itemsize
    size = int(np.prod(shape)) * element
    zone = np.full(size + 2 * MARGIN + LINE, fill, "uint8")
    start = MARGIN + (element - zone.ctypes.data - MARGIN) % LINE
    return zone, zone[start : start + size].view(dtype).reshape(shape)


def symbol_values(func: tirx.PrimFunc, arrays: Sequence[Array]) -> dict[str, int]:
    """What the symbolic extents of the parameters are for these arguments, by name."""
    return {
        extent.name: int(size)
        for parameter, array in zip(func.params, arrays, strict=True)
        for extent, size in zip(parameter.shape, array.shape, strict=True)
        if isinstance(extent, tirx.Var)
    }


def check_kernel(
    func: tirx.PrimFunc,
    target: Target,
    inputs: Sequence[Array],
    expected: Array,
    *,
    tolerance: float = 0.0,
    case: object = None,
    schedule: Callable[[tirx.PrimFunc, Target], Schedule] | None = None,
) -> None:
    """Schedule, look at every index, compile, run, compare; a failure starts with ``case``.

    Integers stored as floats keep the arithmetic exact, so the default is to demand equality.
    """
    try:
        arranged = schedule(func, target) if schedule else apply_rules(func, target)[1]
        scheduled = arranged.mod["main"]
        found = kernel_bounds.out_of_bounds(scheduled, symbol_values(scheduled, [*inputs, expected]))
        assert not found, found
        library = compile_function(scheduled, target)
        got = run_guarded(library, inputs, expected.shape, str(expected.dtype))
        if tolerance:
            np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(got, expected)
    except Exception as error:
        raise AssertionError(f"{case!r}: {type(error).__name__}: {str(error).strip()[-1500:]}") from error


def check_loops(
    inputs: Sequence[Array],
    build: Callable[..., te.Tensor],
    expected: Array,
    symbolic: bool,
    tolerance: float = 0.0,
) -> str:
    """Compare what the rule for all functions makes of ``build`` on this machine. Returns the script.

    With ``symbolic`` the first extent of the first input is a variable.
    """
    batch = tirx.Var("n", "int64")
    shapes = [
        [batch if symbolic and not place else int(size) for place, size in enumerate(array.shape)]
        for array in inputs
    ]
    tensors = [
        te.placeholder(shape if place == 0 else array.shape, str(array.dtype), f"in_{place}")
        for place, (shape, array) in enumerate(zip(shapes, inputs, strict=True))
    ]
    func = prim_func([*tensors, build(*tensors)], "int64" if symbolic else None)
    target = target_for(host_cpus()[-1])
    check_kernel(
        func,
        target,
        inputs,
        expected,
        tolerance=tolerance,
        schedule=lambda func, target: scheduled_by(LoopNest(), func, target),
    )
    return str(scheduled_by(LoopNest(), func, target).mod["main"].script())


def data_of(*shape: int, seed: int = 0) -> Array:
    """Small integers, the same for the same seed."""
    return integers(np.random.default_rng(seed), shape)


def integers(rng: np.random.Generator, shape: Sequence[int], dtype: str = "float32") -> Array:
    """Non-zero integers of one digit: sums and products of them are exact, and none goes unnoticed."""
    return (rng.integers(1, 5, shape) * rng.choice([-1, 1], shape)).astype(dtype)
