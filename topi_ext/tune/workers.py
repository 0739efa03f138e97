"""What the processes that build and run kernels do.

These functions are sent to other processes by name, so they live in a module that is quick to import.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import tvm

WORKER_GROUP_BIG = 1
"""TVM's thread affinity mode that starts from the fastest cores."""

_KEEPS_NAME = "global_symbol"
ENTRY = "main"


def prepare_worker(threads: int) -> None:
    """Set the number of threads; leave Ctrl-C to the tuner, which ends its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["TVM_NUM_THREADS"] = str(threads)
    tvm.get_global_func("runtime.config_threadpool")(WORKER_GROUP_BIG, threads)


def named(function: Any) -> tvm.IRModule:
    """A module with one function that can be called from outside."""
    return tvm.IRModule({ENTRY: function.with_attr(_KEEPS_NAME, ENTRY)})


def build(module: tvm.IRModule, target: Any) -> Any:
    """Machine code of a scheduled module."""
    return tvm.tirx.build(module, target=target)


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


def run_remotely(
    threads: int, session: Any, module: Any, device: Any, config: Any, arguments: list[Any]
) -> list[float]:
    """Run times in seconds on the other end of an RPC session, with that many threads."""
    from tvm.s_tir.meta_schedule.runner.utils import run_evaluator_common

    session.get_function("runtime.config_threadpool")(WORKER_GROUP_BIG, threads)
    return list(run_evaluator_common(module, device, config, arguments))


def _linker(command: tuple[str, ...]) -> Callable[..., None]:
    def link(output: str, objects: list[str], **options: Any) -> None:
        del options
        words = [*command, "-shared", "-fPIC", "-o", output, *objects]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"linking failed: {done.stderr.strip()}")

    return link
