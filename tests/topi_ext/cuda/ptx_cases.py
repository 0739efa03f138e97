"""Scheduled functions through nvcc to PTX, run on :mod:`ptx_machine`."""

import re
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from cuda_sources import cuda_source
from gpu_bulk import maps_of
from gpu_cases import shared_size
from gpu_memory import SimulationError
from ptx_bulk import ENCODERS
from ptx_machine import ORDERS, Launch, Program
from ptx_module import parse_kernels
from ptx_text import compile_ptx
from tvm import tirx

from topi_ext.cuda.codegen.build import device_passes
from topi_ext.cuda.multiprocessor import Multiprocessor

_SIGNATURE = re.compile(r"main_kernel\(([^)]*)\)")
_TAGS = tuple(f"{kind}Idx.{axis}" for kind in ("block", "thread") for axis in "xyz")


@lru_cache(maxsize=64)
def program(text: str) -> Program:
    """Of a module with one kernel."""
    (kernel,) = parse_kernels(text).values()
    return Program(kernel)


@tvm.instrument.pass_instrument
class _LastPass:
    """Keeps the device functions as code generation gets them."""

    def __init__(self) -> None:
        self.devices: list[Any] = []

    def run_after_pass(self, module: tvm.IRModule, info: Any) -> None:
        if info.name == device_passes()[-1].info.name:
            self.devices = [*module.functions.values()]


class Compiled:
    """The PTX ``text`` of a function, the ``names`` of its arguments in order, and how it is launched:
    ``sizes`` of the grid and its blocks, ``shared_bytes``.
    """

    def __init__(self, func: tirx.PrimFunc, sm: Multiprocessor) -> None:
        last = _LastPass()
        with tvm.transform.PassContext(instruments=[last]):
            source = cuda_source(func, sm)
        if len(last.devices) > 1:
            raise SimulationError("several kernels for one function")
        (device,) = last.devices
        self.text = compile_ptx(source, sm.arch)
        # One launched early that does not wait would be wrong, and one that allows no other is in the way.
        words = [f"griddepcontrol.{word}" in self.text for word in ("wait", "launch_dependents")]
        assert words == [sm.capability >= 90] * 2, words
        signature = _SIGNATURE.findall(source)[-1].split(",")
        self.names = [word.rsplit(None, 1)[1].removesuffix("_ptr") for word in signature]
        extents = dict.fromkeys(_TAGS, 1)

        def launched(node: tirx.AttrStmt) -> None:
            if node.attr_key == "thread_extent":
                extents[str(node.node.thread_tag)] = int(node.value)

        tvm_ffi.structural_walk(device.body, (tirx.AttrStmt, launched))
        self.sizes: Any = tuple(extents.values())
        has_dynamic = "shared.dyn" in device.script()
        self.shared_bytes = shared_size(device) if has_dynamic else 0


def run_ptx(
    func: tirx.PrimFunc,
    sm: Multiprocessor,
    arguments: dict[str, np.ndarray],
    change: Callable[[str], str] = str,
    compiled: Compiled | None = None,
    constants: Collection[str] = ("weight",),
) -> None:
    """Launch a scheduled function in every order of :data:`ORDERS`; results are in ``arguments``, by the
    names of its parameters, and must not depend on the order. ``change`` is made to
    the PTX; ``compiled`` is of the same function, if it is there already. No kernel writes the parameters
    ``constants``.
    """
    kernel = compiled or Compiled(func, sm)
    found_program = program(change(kernel.text))
    results = []
    for order in ORDERS:
        found = {name: array.copy() for name, array in arguments.items()}
        named: dict[str, Any] = {**found, **maps_of(func, found, ENCODERS)}
        values = [named[name] for name in kernel.names]
        never_written = [found[name] for name in constants if name in found]
        places = [place for place, value in enumerate(values) if _lies_in(value, never_written)]
        sizes = kernel.sizes
        Launch(found_program, values, sizes[:3], sizes[3:], kernel.shared_bytes, order, places).run()
        results.append(found)
    for name, array in results[0].items():
        for other in results[1:]:
            same = np.array_equal(other[name].view("uint8"), array.view("uint8"))
            assert same, f"{name} depends on the order"
        arguments[name][...] = array


def _lies_in(value: Any, arrays: list[np.ndarray]) -> bool:
    """Is an argument one of the arrays, or a tensor map of one?"""
    own = value if isinstance(value, np.ndarray) else value.array
    return any(own is array for array in arrays)
