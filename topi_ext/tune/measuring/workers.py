"""What the processes that build and run kernels do.

These functions are sent to other processes by name, so they live in a module that is quick to import.
"""

import faulthandler
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from math import prod
from typing import Any, Literal

import tvm

from topi_ext.codegen.build import PIPELINE, unchecked
from topi_ext.machine.amx_permission import may_use_amx
from topi_ext.messages import last_line
from topi_ext.spaces.direct_costs import CACHED_BYTES
from topi_ext.tune.measuring.library import ENTRY, Library
from topi_ext.tune.measuring.needs import Needs
from topi_ext.tune.measuring.tracker import Loan

WORKER_GROUP_BIG = 1
"""TVM's thread affinity mode that starts from the fastest cores."""

COLD_BYTES = 96 << 20
MOST_COPIES = 256
"""Copies of weights are made until they are this long together, or this many."""

MOST_REMOTE_CALLS = 200
"""Calls of one repeat over RPC, each of which waits for the network."""

TRANSFORM_ARGUMENTS = 2
"""What a layout transform reads, and what it writes."""

Outcome = Literal["ran", "slow", "failed", "fit", "unfit", "lost", "unreachable"]
"""What a machine that was lent makes of a kernel, or answers; see :func:`run_on_board`, :func:`ask_board`."""

FILL = "tvm.contrib.random.random_fill_for_measure"
"""TVM's function that fills a tensor with random numbers."""

_KEEPS_NAME = "global_symbol"
_CONFIGURE_THREADS = "runtime.config_threadpool"


def prepare_worker(threads: int) -> None:
    """Set the number of threads; leave Ctrl-C to the tuner, which ends its workers itself.

    Kernels may use matrices afterwards, where there are any.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TVM_NUM_THREADS"] = str(threads)
    tvm.get_global_func(_CONFIGURE_THREADS)(WORKER_GROUP_BIG, threads)
    may_use_amx()


def named(function: Any) -> tvm.IRModule:
    """A module with one function that can be called from outside."""
    return tvm.IRModule({ENTRY: function.with_attr(_KEEPS_NAME, ENTRY)})


def build(module: tvm.IRModule, target: Any) -> Any:
    """Machine code of a scheduled module."""
    with unchecked():
        return tvm.tirx.build(module, target=target, pipeline=PIPELINE)


def export(folder: str, link: tuple[str, ...], built: Any) -> str:
    """Write a library to a new folder in ``folder``, or object files where there is no command to link."""
    inner = tempfile.mkdtemp(dir=folder)
    if not link:
        from tvm.support.tar import tar

        path = os.path.join(inner, f"kernel.{tar.output_format}")
        built.export_library(path, fcompile=tar)
        return path
    path = os.path.join(inner, "kernel.so")
    built.export_library(path, fcompile=_linker(link))
    return path


def build_and_export(folder: str, link: tuple[str, ...], module: tvm.IRModule, target: Any) -> str:
    """The path of what a module was compiled to."""
    return export(folder, link, build(module, target))


def cold_copies(size: int) -> int:
    """How many copies of weights of that many bytes calls take turns with, for them to come from memory."""
    return 1 + min(MOST_COPIES, COLD_BYTES // size) if size >= CACHED_BYTES else 1


def run_here(kernel: Library, repeats: int, min_repeat_ms: int) -> list[float]:
    """Run times in seconds in this process, with weights that come from memory as they do in a network.

    Calls take turns with copies of the weights that together do not fit any cache; the activations stay
    where the call before has left them, as those of a network do.
    """
    device = tvm.cpu()
    function = tvm.runtime.load_module(kernel.path)[ENTRY]
    tensors = filled(kernel, device, tvm.get_global_func(FILL))
    turns = cycle(_with_cold_weights(tensors, device))
    seconds = []
    for turn in range(repeats + 1):
        calls, start = 0, time.perf_counter()
        while calls == 0 or time.perf_counter() - start < min_repeat_ms / 1e3:
            function(*next(turns))
            calls += 1
        if turn:
            seconds.append((time.perf_counter() - start) / calls)
    return seconds


def filled(kernel: Library, device: Any, fill: Callable[[Any], object]) -> list[Any]:
    """Tensors for a kernel's arguments on the device, filled there by its own :data:`FILL`."""
    tensors = [tvm.runtime.empty(shape, dtype, device) for shape, dtype in kernel.arguments]
    for tensor in tensors:
        fill(tensor)
    return tensors


def _with_cold_weights(arguments: list[Any], device: Any) -> list[list[Any]]:
    """The arguments of a kernel, once for each copy of its weights; those of a transform, which has none."""
    if len(arguments) == TRANSFORM_ARGUMENTS:
        return [arguments]
    data, weight, *rest = arguments
    copies = [weight]
    for _ in range(cold_copies(_bytes_of(weight)) - 1):
        # Of another machine's memory nothing is sent here: it copies for itself.
        copies.append(tvm.runtime.empty(weight.shape, weight.dtype, device).copyfrom(weight))
    return [[data, copy, *rest] for copy in copies]


def _bytes_of(tensor: Any) -> int:
    return prod(tensor.shape) * tvm.DataType(tensor.dtype).bits // 8


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """Ends this process where what is inside takes longer.

    A thread of Python's could not: TVM frees what is on another machine with the interpreter locked, and
    waits for the machine's answer meanwhile.
    """
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def run_on_board(
    loan: Loan,
    kernel: Library,
    *,
    threads: int,
    repeats: int,
    min_repeat_ms: int,
    limit: float,
    grace: float,
) -> tuple[Outcome, Any]:
    """Run a library on a machine that was lent, for at most ``limit`` seconds.

    Gives "ran" and the times in seconds; "slow" where the machine ended the session since it took too long;
    "failed" and an error of a machine that still answers; "lost" and an error of a machine that does not
    answer; "unreachable" where it did not in the first place. Where it says nothing for ``grace`` seconds
    beyond the limit, this process ends.
    """
    with ended_after(limit + grace):
        # All that is on the machine is freed before this returns.
        return _run_on_board(loan, kernel, threads, repeats, min_repeat_ms, limit)


def _run_on_board(
    loan: Loan, kernel: Library, threads: int, repeats: int, min_repeat_ms: int, limit: float
) -> tuple[Outcome, Any]:
    try:
        session = loan.connect(limit)
    except Exception as error:
        return "unreachable", str(error)
    try:
        device = session.device(kernel.device, 0)
        if not device.exist:
            return "failed", "the machine has no GPU that TVM can use"
        session.upload(kernel.path)
        module = session.load_module(os.path.basename(kernel.path))
        tensors = filled(kernel, device, session.get_function(FILL))
        if kernel.device == "cuda":
            return "ran", device_times(module, device, tensors, kernel, repeats, min_repeat_ms)
        configure = session.get_function(_CONFIGURE_THREADS)
        configure(WORKER_GROUP_BIG, threads)
        return "ran", _times_on_board(module, device, tensors, repeats, min_repeat_ms)
    except Exception as error:
        text = str(error)
        if "RPCSessionTimeoutError" in text:
            return "slow", ""
        return ("failed", text) if _answers(session) else ("lost", text)


def ask_board(loan: Loan, needs: Needs, *, limit: float, grace: float) -> tuple[Outcome, str]:
    """Ask a machine that was lent whether it can run kernels that need all that.

    Gives "fit"; "unfit" and what it is or lacks; "lost" and "unreachable" as :func:`run_on_board`.
    """
    with ended_after(limit + grace):
        return _ask_board(loan, needs, limit)


def _ask_board(loan: Loan, needs: Needs, limit: float) -> tuple[Outcome, str]:
    try:
        session = loan.connect(limit)
    except Exception as error:
        return "unreachable", str(error)
    try:
        problem = needs.unmet(session)
    except Exception as error:
        if not _answers(session):
            return "lost", str(error)
        problem = f"does not load a library: {last_line(str(error))}"
    return ("unfit", problem) if problem else ("fit", "")


def _answers(session: Any) -> bool:
    try:
        session.get_function(_CONFIGURE_THREADS)
    except Exception:
        return False
    return True


def _times_on_board(
    module: Any, device: Any, tensors: list[Any], repeats: int, min_repeat_ms: int
) -> list[float]:
    """Times in seconds with cold weights; the board times each call, and then waits for the next."""
    turns = cycle(_with_cold_weights(tensors, device))
    timed = module.time_evaluator(ENTRY, device, number=1, repeat=1)
    seconds = []
    for turn in range(repeats + 1):
        times: list[float] = []
        while not times or (sum(times) < min_repeat_ms / 1e3 and len(times) < MOST_REMOTE_CALLS):
            times += timed(*next(turns)).results
        if turn:
            seconds.append(sum(times) / len(times))
    return seconds


def device_times(
    module: Any, device: Any, tensors: Sequence[Any], kernel: Library, repeats: int, min_repeat_ms: int
) -> list[float]:
    """Times in seconds on a GPU of another machine, between two events around many calls; those of functions
    are added. Of a short kernel it is the time that a launch takes.

    Data and weights come from the second-level cache where they fit it.
    """
    seconds = [0.0] * repeats
    for name, places in kernel.calls:
        evaluator = module.time_evaluator(name, device, number=1, repeat=repeats, min_repeat_ms=min_repeat_ms)
        results = evaluator(*[tensors[place] for place in places]).results
        seconds = [sum(pair) for pair in zip(seconds, results, strict=True)]
    return seconds


def _linker(command: tuple[str, ...]) -> Callable[..., None]:
    def link(output: str, objects: list[str], **options: Any) -> None:
        words = [*command, "-shared", "-fPIC", "-o", output, *objects]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"linking failed: {done.stderr.strip()}")

    return link
