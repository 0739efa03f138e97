"""Relay's ways to write a target, as :func:`relay_layout.targets.resolve_target` takes them."""

import os
from collections.abc import Mapping
from typing import Any

import tvm

from relay_layout.environment.host import gpu_architecture
from relay_layout.errors import TargetError
from relay_layout.relay.building.history import logs_applied
from relay_layout.targets import BuildTarget, resolve_target
from relay_layout.targets.target_strings import READ, description_of, is_target_string

_KINDS = ("c", "cuda", "hexagon", "metal", "nvptx", "opencl", "rocm", "vulkan", "webgpu")
"""Kinds of targets that Relay built for by their name alone."""

_NO_GPU = "sm_50"
"""The architecture that TVM gives ``Target("cuda")`` where it finds no GPU to ask."""


def build_target(target: Any) -> BuildTarget:
    """The target of a text such as ``"llvm -mcpu=core-avx2"``, a tag or target of TVM, a list or dictionary.

    ``"llvm"`` alone, and None without a target in scope, are this machine, with :func:`asked_threads`. Its
    kernels are also those of :func:`relay_layout.relay.building.history.apply_history_best`. ``"cuda"`` alone
    is the GPU of this machine. TargetError for what cannot be built for.
    """
    if target is None:
        target = tvm.target.Target.current(allow_none=True) or "llvm"
    if isinstance(target, list | tuple) and len(target) == 1:
        target = target[0]
    if isinstance(target, Mapping) and "kind" not in target and len(target) == 1:
        (target,) = target.values()
    if isinstance(target, list | tuple) or (isinstance(target, Mapping) and "kind" not in target):
        raise TargetError("one target is needed: networks are not divided between devices")
    if isinstance(target, tvm.target.Target):
        given = {name: value for name, value in target.attrs.items() if name in READ}
        # TVM fills in the triple of this machine.
        if str(target.kind.name) == "llvm" and set(given) <= {"mtriple"}:
            return _with_triple(str(given.get("mtriple", "")))
        if str(target.kind.name) == "cuda" and target.attrs.get("arch") == _NO_GPU:
            return _resolved({"kind": str(target.kind.name)})
        return _resolved(target)
    if isinstance(target, str) and not target.strip().startswith("{"):
        return _from_text(target)
    return _resolved(target)


def _from_text(text: str) -> BuildTarget:
    kind = text.split()[:1]
    if not kind:
        raise TargetError("the target is empty; use 'llvm'")
    if not is_target_string(text):
        if text in tvm.target.list_tags():
            return build_target(tvm.target.Target(text))
        return _resolved({"kind": kind[0]} if kind[0] in _KINDS else text)
    description = description_of(text)
    return _resolved("native" if description == {"kind": "llvm"} else description)


def asked_threads() -> int | None:
    """``$TVM_NUM_THREADS``, the threads that TVM runs networks on here; None for one on each core.

    TargetError for what is no number.
    """
    text = os.environ.get("TVM_NUM_THREADS", "")
    if text and not (text.isdecimal() and int(text)):
        raise TargetError(f"TVM_NUM_THREADS is {text!r}; set it to a whole number from 1 on, or unset it")
    return int(text) if text else None


def _resolved(target: Any) -> BuildTarget:
    if isinstance(target, Mapping) and target.get("kind") == "cuda" and not target.get("arch"):
        target = {**target, "arch": _gpu_here()}
    threads = asked_threads() if target == "native" else None
    return resolve_target(target, threads=threads, tuning_records=logs_applied())


def _gpu_here() -> str:
    found = gpu_architecture()
    if not found:
        raise TargetError(
            "target cuda: no GPU is found here; say which one to build for, such as 'cuda -arch=sm_90'"
        )
    return found


def _with_triple(triple: str) -> BuildTarget:
    native = _resolved("native")
    machine = str(native.manifest()["mtriple"]).split("-")[0]
    if not triple or triple.split("-")[0] == machine:
        return native
    return _resolved({"kind": "llvm", "mtriple": triple})
