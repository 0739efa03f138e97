"""Where the names of TVM up to 0.18 are today, and what to do instead of those that are gone."""

from collections.abc import Callable, Collection, Iterator

from relay_layout.port.gone import GONE

HasName = Callable[[str], bool]
"""Whether today's packages have a dotted name that begins with ``relay`` (this package's) or ``tvm``."""

RELAY = "relay_layout.relay"
"""What stands for ``tvm.relay``."""

NO_KERNELS = "relay-layout has kernels for CPUs (llvm) and NVIDIA's GPUs (cuda) alone; give one of these"
"""Why a target is noted that nothing is built for."""

_MOVED = {
    "tvm._ffi.get_global_func": "tvm.get_global_func",
    "tvm._ffi.register_func": "tvm.register_global_func",
    "tvm._ffi.register_object": "tvm.register_object",
    "tvm.arith": "tvm.sym",
    "tvm.auto_scheduler": f"{RELAY}.auto_scheduler",
    "tvm.auto_scheduler.search_task": f"{RELAY}.auto_scheduler",
    "tvm.auto_scheduler.task_scheduler": f"{RELAY}.auto_scheduler",
    "tvm.autotvm": f"{RELAY}.autotvm",
    "tvm.autotvm.measure.measure_methods": f"{RELAY}.autotvm.measure",
    "tvm.autotvm.task.task": f"{RELAY}.autotvm.task",
    "tvm.autotvm.task.relay_integration": f"{RELAY}.autotvm.task",
    "tvm.cl": "tvm.opencl",
    "tvm.compute": "tvm.te.compute",
    "tvm.context": "tvm.device",
    "tvm.contrib.cc": "tvm.support.cc",
    "tvm.contrib.clang": "tvm.support.clang",
    "tvm.contrib.debugger.debug_executor": f"{RELAY}.debug_executor",
    "tvm.contrib.debugger.debug_runtime": f"{RELAY}.debug_executor",
    "tvm.contrib.emcc": "tvm.support.emcc",
    "tvm.contrib.graph_executor": f"{RELAY}.graph_executor",
    "tvm.contrib.graph_runtime": f"{RELAY}.graph_executor",
    "tvm.contrib.ndk": "tvm.support.ndk",
    "tvm.contrib.nvcc": "tvm.support.nvcc",
    "tvm.contrib.popen_pool": "tvm.support.popen_pool",
    "tvm.contrib.rocm": "tvm.support.rocm",
    "tvm.contrib.tar": "tvm.support.tar",
    "tvm.contrib.util": "tvm.support.utils",
    "tvm.contrib.utils": "tvm.support.utils",
    "tvm.contrib.xcode": "tvm.support.xcode",
    "tvm.dlight": "tvm.s_tir.dlight",
    "tvm.gpu": "tvm.cuda",
    "tvm.ir.structural_equal": "tvm_ffi.structural_equal",
    "tvm.ir.structural_hash": "tvm_ffi.structural_hash",
    "tvm.meta_schedule": "tvm.s_tir.meta_schedule",
    "tvm.module.load": "tvm.runtime.load_module",
    "tvm.mtl": "tvm.metal",
    "tvm.nd": "tvm.runtime",
    "tvm.nd.NDArray": "tvm.runtime.Tensor",
    "tvm.nd.array": "tvm.runtime.tensor",
    "tvm.ndarray": "tvm.runtime",
    "tvm.ndarray.NDArray": "tvm.runtime.Tensor",
    "tvm.ndarray.array": "tvm.runtime.tensor",
    "tvm.parser.fromtext": f"{RELAY}.fromtext",
    "tvm.parser.parse": f"{RELAY}.parse",
    "tvm.parser.parse_expr": f"{RELAY}.parse_expr",
    "tvm.placeholder": "tvm.te.placeholder",
    "tvm.register_func": "tvm.register_global_func",
    "tvm.te.size_var": "tvm.te.var",
    "tvm.relay.Module": "tvm.IRModule",
    "tvm.relay.SequentialSpan": "tvm.ir.SequentialSpan",
    "tvm.relay.SourceName": "tvm.ir.SourceName",
    "tvm.relay.Span": "tvm.ir.Span",
    "tvm.relay.build_config": "tvm.transform.PassContext",
    "tvm.relay.module.Module": "tvm.IRModule",
    "tvm.relay.transform.PassContext": "tvm.transform.PassContext",
    "tvm.relay.transform.Sequential": "tvm.transform.Sequential",
    "tvm.relay.transform.build_config": "tvm.transform.PassContext",
    "tvm.rpc": f"{RELAY}.rpc",
    "tvm.runtime.NDArray": "tvm.runtime.Tensor",
    "tvm.runtime.ndarray": "tvm.runtime",
    "tvm.runtime.ndarray.NDArray": "tvm.runtime.Tensor",
    "tvm.runtime.ndarray.array": "tvm.runtime.tensor",
    "tvm.runtime.vm.Executable": f"{RELAY}.vm.Executable",
    "tvm.runtime.vm.VirtualMachine": f"{RELAY}.vm.VirtualMachine",
    "tvm.script.tir": "tvm.script.tirx",
    "tvm.target.create": "tvm.target.Target",
    "tvm.tir": "tvm.tirx",
    # Layouts of tvm.tirx are something else.
    "tvm.tir.BijectiveLayout": "tvm.s_tir.SBijectiveLayout",
    "tvm.tir.Block": "tvm.s_tir.SBlock",
    "tvm.tir.Layout": "tvm.s_tir.SLayout",
    "tvm.tir.Schedule": "tvm.s_tir.Schedule",
    "tvm.tir.TensorIntrin": "tvm.s_tir.TensorIntrin",
    "tvm.tir.bijective_layout": "tvm.s_tir.sbijective_layout",
    "tvm.tir.layout": "tvm.s_tir.slayout",
    "tvm.var": "tvm.te.var",
}
"""Today's names by the old ones; of several the longest that a name begins with counts."""

_ONLY_WITH_RELAY = frozenset(["tvm.rpc"])
"""Names that moved for scripts that use Relay, and are where they were for others."""

_FLAT_MODULES = [
    "adt",
    "base",
    "build_module",
    "expr",
    "expr_functor",
    "function",
    "param_dict",
    "parser",
    "scope_builder",
    "ty",
    "type_functor",
]
"""Modules of Relay that were seldom named, since all that they have is also there without them."""

_INNER_MODULES = (*_FLAT_MODULES, *["op", "op.algorithm", "op.op", "op.reduce", "op.tensor", "op.transform"])
"""Modules of Relay whose names it also offered without them."""

_SAME_MODULE = {
    "analysis.analysis": "analysis",
    "backend.vm": "vm",
    "frontend.onnx": "frontend",
    "frontend.pytorch": "frontend",
    "frontend.tflite": "frontend",
    "op.image.image": "image",
    "op.nn.nn": "nn",
    "op.op": "op",
    "op.strategy.generic": "op.strategy",
    "op.vision.vision": "vision",
    "parse": "fromtext",
    "qnn.op.qnn": "qnn.op",
    "transform.infer_layout_utils": "op",
    "transform.transform": "transform",
}
"""Names of Relay that it also offered under another name."""


class Names:
    """Old names and today's, as far as ``has_name`` knows them."""

    def __init__(self, has_name: HasName, *, with_relay: bool = True) -> None:
        """``with_relay`` says whether the script that is asked for uses Relay."""
        self._has_name = has_name
        self._stays: Collection[str] = () if with_relay else _ONLY_WITH_RELAY
        self._known: dict[str, str | None] = {}

    def today(self, old: str) -> str | None:
        """Today's name for one of the old TVM's; None if there is none.

        Both are dotted from the top, such as "tvm.relay.nn.conv2d" and "relay_layout.relay.nn.conv2d".
        Today's names are their own.
        """
        if old not in self._known:
            found = (name for name in _candidates(old, self._stays) if self._is_there(name))
            self._known[old] = next(found, None)
        return self._known[old]

    def to_import(self, old: str) -> str | None:
        """The same for what a ``from`` import names, whose module must be a module today too."""
        inner = _inner_relay_name(old)
        module, _, name = (inner or "").rpartition(".")
        if module in _FLAT_MODULES and self._is_there(f"{RELAY}.{name}"):
            return f"{RELAY}.{name}"
        return self.today(old)

    def _is_there(self, name: str) -> bool:
        if name in (RELAY, "tvm"):
            return True
        if name.startswith(f"{RELAY}."):
            return self._has_name(f"relay{name[len(RELAY) :]}")
        return not name.startswith("tvm.") or self._has_name(name)


def is_ours(dotted: str) -> bool:
    """Whether a name is TVM's, or this package's in its place."""
    return _begins(dotted, "tvm") or _begins(dotted, RELAY) or dotted == "relay_layout"


def old_name(dotted: str) -> str:
    """The old name for what a script imports, which may have been ported before."""
    return f"tvm.relay{dotted[len(RELAY) :]}" if _begins(dotted, RELAY) else dotted


def shown(old: str) -> str:
    """A name as people say it: ``relay.build`` for ``tvm.relay.build``."""
    return old.removeprefix("tvm.") if _begins(old, "tvm.relay") else old


def reason(old: str) -> str:
    """Why an old name cannot be carried, and what to do instead."""
    known = known_reason(old)
    if known is not None:
        return known
    if _begins(old, "tvm.relay"):
        return "relay-layout has no such name; write it with the operators that relay-layout has"
    return "TVM 0.27 has no such name; see its documentation for what took its place"


def known_reason(old: str) -> str | None:
    """The same, None where nothing is known of the name or of a module that it is in."""
    if _begins(old, "tvm.relay.op.op"):
        old = old.replace(".op.op", ".op", 1)
    return next((GONE[prefix] for prefix in _prefixes(old) if prefix in GONE), None)


def _candidates(old: str, stays: Collection[str]) -> Iterator[str]:
    """What an old name may be called today, likeliest first."""
    for prefix in _prefixes(old):
        if prefix in _MOVED and prefix not in stays:
            yield from _moved(_MOVED[prefix] + old[len(prefix) :])
    yield from _moved(old)


def _moved(name: str) -> Iterator[str]:
    inner = _inner_relay_name(name)
    if inner is None:
        yield name
        return
    yield RELAY + (f".{inner}" if inner else "")
    for module, same in _SAME_MODULE.items():
        if _begins(inner, module):
            yield f"{RELAY}.{same}{inner[len(module) :]}"
    for module in sorted(_INNER_MODULES, key=len, reverse=True):
        if inner.startswith(f"{module}."):
            yield f"{RELAY}.{inner[len(module) + 1 :]}"


def _inner_relay_name(name: str) -> str | None:
    """What follows ``relay.``; None for other names."""
    for package in (RELAY, "tvm.relay"):
        if _begins(name, package):
            return name[len(package) + 1 :]
    return None


def _prefixes(dotted: str) -> Iterator[str]:
    """The name and its modules, longest first."""
    while dotted:
        yield dotted
        dotted = dotted.rpartition(".")[0]


def _begins(dotted: str, prefix: str) -> bool:
    return dotted == prefix or dotted.startswith(f"{prefix}.")
