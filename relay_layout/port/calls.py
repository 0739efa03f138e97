"""Calls whose arguments changed with TVM, and methods that became functions."""

import ast

from relay_layout.port.bases import Bases
from relay_layout.port.names import NO_KERNELS, RELAY
from relay_layout.port.references import rename
from relay_layout.port.script import Chain, Script

_DEVICE = "tvm.device"
_CONTEXT = "tvm.transform.PassContext"
_ARRAYS = ("tvm.runtime.tensor", "tvm.runtime.empty")
_LOAD = "tvm.runtime.load_module"
_TEXT = f"{RELAY}.astext"
_DEVICE_NAMES = {
    "cl": "opencl",
    "gpu": "cuda",
    "hybrid": "cpu",
    "llvm": "cpu",
    "mtl": "metal",
    "nvptx": "cuda",
    "stackvm": "cpu",
}
_TARGET_HELPERS = {
    "tvm.target.cuda": '"cuda"',
    "tvm.target.intel_graphics": '{"kind": "opencl", "device": "intel_graphics"}',
    "tvm.target.mali": '{"kind": "opencl", "device": "mali"}',
    "tvm.target.rocm": '"rocm"',
}
_TARGET_MAKERS = (*_TARGET_HELPERS, "tvm.target.Target", "tvm.target.create", "tvm.target.arm_cpu")
_DEVICES = frozenset(["cuda", "metal", "opencl", "rocm", "vulkan"])
"""Names of devices that are names of targets as well."""

# Of PassContext's configuration: the old names that still have a meaning.
_CONFIGURATION = {
    "relay.FuseOps.max_depth": "relax.FuseOps.max_depth",
    **{
        f"tir.{name}": f"tirx.{name}"
        for name in [
            "RemoveNoOp",
            "UnrollLoop",
            "add_lower_pass",
            "debug_keep_trivial_loop",
            "disable_assert",
            "disable_cse_tir",
            "disable_storage_rewrite",
            "disable_vectorize",
            "enable_buffer_level_predication",
            "enable_debug",
            "instrument_bound_checkers",
            "instrument_lwp",
            "is_entry_func",
            "merge_static_smem",
            "noalias",
            "use_async_copy",
            "vtcm_capacity",
        ]
    },
    **{
        f"tir.{name}": f"s_tir.{name}"
        for name in ["HoistExpression", "HoistIfThenElse", "InjectDoubleBuffer", "LoopPartition"]
    },
}

_WITHOUT_EFFECT = frozenset(
    f"relay.{name}"
    for name in [
        "FuseOps.link_params",
        "backend.use_auto_scheduler",
        "backend.use_meta_schedule",
        "backend.use_meta_schedule_dispatch",
        "backend.use_multitarget_pipeline",
        "fallback_device_type",
    ]
)
"""Options of PassContext that chose among Relay's own ways to make kernels, and go."""

_ARGUMENTS = {
    "relay.ToMixedPrecision.keep_orig_output_dtype": "ToMixedPrecision keep_orig_output_dtype=True",
}
"""Options of PassContext that are arguments of a pass here."""

_REGISTRIES = {
    "FInferCorrectLayout": "register_infer_correct_layout",
    "FTVMAlterOpLayout": "register_alter_op_layout",
    "FTVMCompute": "register_compute",
    "FTVMConvertOpLayout": "register_convert_op_layout",
    "FTVMMixedPrecisionConversionType": "register_mixed_precision_conversion",
}
"""Attributes of Relay's operators to the functions of ``relay.op`` that take them."""


def port_calls(script: Script, bases: Bases) -> None:
    """Rewrites the calls, and notes what has no counterpart."""
    in_use = any(script.chain(node) for node in script.nodes if isinstance(node, ast.Name))
    foreign = _imports_other_arrays(script)
    called = {id(node.func) for node in script.nodes if isinstance(node, ast.Call)}
    for node in script.nodes:
        if isinstance(node, ast.Call):
            chain = script.chain(node.func)
            if chain is not None:
                _port_call(script, bases, node, chain)
            elif in_use and isinstance(node.func, ast.Attribute):
                _port_method(script, bases, node, node.func, foreign)
        elif in_use and isinstance(node, ast.Attribute) and id(node) not in called:
            _port_attribute(script, node)


def _port_attribute(script: Script, node: ast.Attribute) -> None:
    """Notes a method that is gone, where it is not called; functions have no type parameters today."""
    is_read = isinstance(node.ctx, ast.Load) and script.chain(node) is None
    if node.attr == "type_params" and is_read and not script.is_in_text(node):
        script.replace(*script.source.span(node), "[]")
    if node.attr == "astext" and script.chain(node) is None:
        script.note(node, "astext", "no method today; call relay.astext(module)")


def _port_call(script: Script, bases: Bases, node: ast.Call, chain: Chain) -> None:
    today = script.today(chain.old)
    if chain.old[0] in _TARGET_HELPERS and today is None:
        _port_target_helper(script, bases, node, chain)
    elif today == _DEVICE:
        _port_device(script, bases, node, chain)
    elif today in _ARRAYS:
        _rename_keyword(script, node, "ctx", "device")
    elif today == _CONTEXT:
        _port_context(script, node)
    elif today == _TEXT:
        _note_annotate(script, node)
    elif today == _LOAD:
        _port_load(script, bases, node, chain)
    elif today is not None and chain.old[0].endswith(".register_op_attr"):
        _port_operator_attribute(script, bases, node, chain)
    elif chain.old[0] == "tvm.ir.make_node":
        _port_node(script, node)


def _port_target_helper(script: Script, bases: Bases, node: ast.Call, chain: Chain) -> None:
    old = chain.old[0]
    if node.args or node.keywords or script.is_in_text(node):
        return
    script.done.add(id(node.func))
    start, end = script.source.span(node)
    if "cuda" not in old and script.uses(RELAY):
        script.note(node.func, old, NO_KERNELS)
    target = bases.spell("tvm.target.Target", node.func)
    script.replace(start, end, f"{target}({_TARGET_HELPERS[old]})")


def _port_device(script: Script, bases: Bases, node: ast.Call, chain: Chain) -> None:
    """A target's name is no device's name any more."""
    if not node.args:
        return
    kind = node.args[0]
    if isinstance(kind, ast.Constant) and isinstance(kind.value, str):
        # Of a target's text only the first word counted.
        word = kind.value.split()[0] if kind.value.strip() else ""
        device = _DEVICE_NAMES.get(word, word)
        if device != kind.value:
            script.done.add(id(kind))
            _replace_text(script, kind, device)
    elif not node.keywords and _is_target(script, kind):
        rename(script, bases, chain, "tvm.device_from_target")


def _is_target(script: Script, node: ast.expr) -> bool:
    """Whether a script plainly gives a target, or its name, where a device's name is wanted."""
    if isinstance(node, ast.Attribute):
        if node.attr == "target" and isinstance(node.value, ast.Name):
            # An option of that name, args.target.
            return script.chain(node) is None
        return node.attr == "name" and isinstance(node.value, ast.Attribute) and node.value.attr == "kind"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
        # Only targets were turned into text for this.
        return len(node.args) == 1
    if not isinstance(node, ast.Name):
        return False
    values = [binding.value for binding in script.scopes.of(node).resolve(node.id)]
    if node.id == "target" and values == [None]:
        # A parameter of that name is what is built for.
        return True
    if not all(value is not None and _makes_target(script, value) for value in values):
        return False
    return any(not isinstance(value, ast.Constant) or value.value not in _DEVICES for value in values)


def _makes_target(script: Script, value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        text = value.value
        return isinstance(text, str) and text.partition(" ")[0] in {*_DEVICES, "llvm", "nvptx"}
    if not isinstance(value, ast.Call):
        return False
    chain = script.chain(value.func)
    return chain is not None and chain.old[0] in _TARGET_MAKERS


def _port_load(script: Script, bases: Bases, node: ast.Call, chain: Chain) -> None:
    """What ``relay.build`` makes is no library of TVM's, and has a reader of its own."""
    ours = f"{RELAY}.load_module"
    if not script.uses(RELAY) or script.names.today(ours) != ours:
        return
    if script.uses("tvm.build") or script.uses("tvm.compile"):
        why = "relay.load_module reads what relay.build wrote, this what TVM wrote; choose one"
        script.note(node.func, "tvm.runtime.load_module", why)
        return
    rename(script, bases, chain, ours)


def _port_context(script: Script, node: ast.Call) -> None:
    for keyword in node.keywords:
        if keyword.arg == "trace":
            script.note(keyword.value, "trace", "PassContext has instruments in place of trace")
        if keyword.arg == "config" and isinstance(keyword.value, ast.Dict):
            _port_options(script, keyword.value)


def _port_options(script: Script, options: ast.Dict) -> None:
    source = script.source
    left: int | None = None
    for place, (key, value) in enumerate(zip(options.keys, options.values, strict=True)):
        start, end = source.span(value if key is None else key)[0], source.span(value)[1]
        name = key.value if isinstance(key, ast.Constant) else None
        if name not in _WITHOUT_EFFECT or script.is_in_text(options):
            left = end
            if isinstance(key, ast.Constant) and isinstance(name, str):
                _port_option(script, key, name)
        elif place + 1 < len(options.keys):
            following = options.keys[place + 1] or options.values[place + 1]
            script.replace(start, source.span(following)[0], "")
        else:
            script.replace(start if left is None else left, end, "")


def _port_option(script: Script, node: ast.Constant, option: str) -> None:
    if option in _CONFIGURATION:
        _replace_text(script, node, _CONFIGURATION[option])
    elif option in _ARGUMENTS:
        script.note(node, option, f"TVM 0.27 has no such option; give {_ARGUMENTS[option]}")
    elif option.startswith(("relay.", "tir.")):
        script.note(node, option, "TVM 0.27 has no such option; leave it out")


def _port_operator_attribute(script: Script, bases: Bases, node: ast.Call, chain: Chain) -> None:
    """Relay's operators are none of TVM's today: what was an attribute of them has a registry of its own."""
    if len(node.args) < 2:
        return
    operator, attribute = node.args[:2]
    name = str(attribute.value) if isinstance(attribute, ast.Constant) else ""
    if name in _REGISTRIES and not script.is_in_text(node):
        rename(script, bases, chain, f"{RELAY}.op.{_REGISTRIES[name]}")
        script.replace(script.source.span(operator)[1], script.source.span(attribute)[1], "")
    elif name.startswith(("FTVM", "FInferCorrect")):
        why = "Relay's operators are not TVM's today; relay.op has registries of callbacks"
        script.note(node, name, why)


def _port_node(script: Script, node: ast.Call) -> None:
    """Attributes of a call are another type of TVM's today."""
    for key in node.args[:1]:
        if isinstance(key, ast.Constant) and key.value == "DictAttrs":
            _replace_text(script, key, "ir.DictAttrs")


def _port_method(
    script: Script, bases: Bases, node: ast.Call, method: ast.Attribute, foreign: str | None
) -> None:
    if method.attr == "asnumpy" and not node.args and not node.keywords:
        if foreign is not None:
            why = f"it may be an array of {foreign}; if it is TVM's, call numpy()"
            script.note(method, "asnumpy", why)
            return
        _, end = script.source.span(method)
        script.replace(end - len("asnumpy"), end, "numpy")
    elif method.attr == "astext":
        _port_astext(script, bases, node, method)


def _port_astext(script: Script, bases: Bases, node: ast.Call, method: ast.Attribute) -> None:
    source = script.source
    start, _ = source.span(node)
    dot = source.after_gap(source.span(method.value)[1])
    opening = source.text.index("(", source.span(method)[1])
    separator = (
        "" if not (node.args or node.keywords) else "," if source.text[opening + 1].isspace() else ", "
    )
    script.insert(start, f"{bases.spell(_TEXT, method)}(")
    script.replace(dot, opening + 1, separator if node.args or node.keywords else "")
    _note_annotate(script, node)


def _note_annotate(script: Script, node: ast.Call) -> None:
    for keyword in node.keywords:
        if keyword.arg == "annotate":
            script.note(keyword.value, "annotate", "relay.astext annotates nothing; leave it out")


def _replace_text(script: Script, node: ast.Constant, text: str) -> None:
    if script.is_in_text(node):
        script.note(node, str(node.value), f'it is "{text}" today; rewrite the f-string by hand')
    else:
        script.replace(*script.source.span(node), f'"{text}"')


def _rename_keyword(script: Script, node: ast.Call, old: str, new: str) -> None:
    for keyword in node.keywords:
        if keyword.arg == old:
            start, _ = script.source.span(keyword)
            script.replace(start, start + len(old), new)


def _imports_other_arrays(script: Script) -> str | None:
    """A package that the script imports whose arrays have the method ``asnumpy`` as well."""
    for node in script.nodes:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        for name in names:
            if name.partition(".")[0] in ("cupy", "dgl", "mindspore", "mxnet"):
                return name.partition(".")[0]
    return None
