"""The threads of a library of kernels: ``launch.c``, which is linked into it."""

from pathlib import Path

SOURCE = Path(__file__).with_name("launch.c")
"""A file of C that defines what parallel loops call, in place of TVM's thread pool."""

COMPILING = ("-c", "-fPIC", "-pthread", "-O2", "-std=gnu11", "-x", "c", str(SOURCE))
"""How a driver of a compiler of C or C++ makes an object file of it."""

LINKING = ("-pthread",)
"""What linking that takes."""

AMX = "-DAMX"
"""An argument before :data:`COMPILING` for kernels of matrices, whose library asks for their registers."""

SET_THREADS = "relay_layout_threads"
"""TVM's name of a function of the linked library: it takes the number of threads, 0 for all cores."""

__all__ = ["AMX", "COMPILING", "LINKING", "SET_THREADS", "SOURCE"]
