"""How many threads kernels use: of a library's own, or of the pool that TVM has for a calling thread."""

import os
import threading
from typing import Any

import tvm_ffi

from relay_layout.environment.host import check_threads, cpu_count
from relay_layout.runtime.cpu import load_runtime
from topi_ext.threads import SET_THREADS

WORKER_GROUP_BIG = 1
"""TVM's thread affinity mode that starts from the fastest cores."""

_THREAD = threading.local()
"""``count``: how many threads the pool of this thread was last told to use."""


def set_threads(threads: int | None) -> None:
    """How many threads the pool that TVM has for the calling thread uses from now on; all cores for None.

    TVM by itself takes half of an x86 machine's. The pool's size is fixed when it is first used, so it is
    made as large as the machine; more threads than cores only wait for each other, so a larger number is
    taken as all cores.
    """
    count = thread_count(threads)
    os.environ.setdefault("TVM_NUM_THREADS", str(cpu_count()))
    load_runtime()
    tvm_ffi.get_global_func("runtime.config_threadpool")(WORKER_GROUP_BIG, count)
    _THREAD.count = count


def use_threads(count: int) -> None:
    """As :func:`set_threads`, which takes a while, unless that was last told so many."""
    if getattr(_THREAD, "count", None) != count:
        set_threads(count)


def set_own_threads(library: Any, count: int) -> bool:
    """Have a library's loops use ``count`` of its own threads; False where it has none of its own."""
    if not library.implements_function(SET_THREADS, query_imports=True):
        return False
    library.get_function(SET_THREADS, query_imports=True)(count)
    return True


def thread_count(threads: int | None) -> int:
    """So many threads, but no more than there are cores; all of those for None."""
    check_threads(threads)
    cores = cpu_count()
    return min(threads or cores, cores)
