"""Calls and methods, one by one."""

import port_golden as golden
import pytest

from relay_layout.port import port_source

_HEAD = "import tvm\nfrom relay_layout import relay\n"


def ported(text: str) -> str:
    found = port_source((_HEAD + text).encode(), has_name=golden.known)
    return found.text.removeprefix(_HEAD)


def notes(text: str) -> list[tuple[int, str]]:
    found = port_source((_HEAD + text).encode(), has_name=golden.known)
    assert found.text == _HEAD + text
    return [(place.line - _HEAD.count("\n"), place.name) for place in found.not_carried]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("tvm.nd.array(x, dev)", "tvm.runtime.tensor(x, dev)"),
        ("tvm.nd.array(x, ctx=dev)", "tvm.runtime.tensor(x, device=dev)"),
        ("tvm.nd.empty((1,), ctx=dev)", "tvm.runtime.empty((1,), device=dev)"),
        ("tvm.nd.NDArray", "tvm.runtime.Tensor"),
        ("tvm.nd.cpu(0)", "tvm.runtime.cpu(0)"),
        ("tvm.gpu()", "tvm.cuda()"),
        ("tvm.context('llvm', 0)", 'tvm.device("cpu", 0)'),
        ("tvm.device('cuda', 0)", "tvm.device('cuda', 0)"),
        ("tvm.device('llvm -mcpu=znver3')", 'tvm.device("cpu")'),
        ("tvm.device(name, 0)", "tvm.device(name, 0)"),
        ("t = 'llvm'\ntvm.device(t, 0)", "t = 'llvm'\ntvm.device_from_target(t, 0)"),
        ("def f(t='llvm'):\n    tvm.device(t, 0)", "def f(t='llvm'):\n    tvm.device_from_target(t, 0)"),
        ("def f(t='cpu'):\n    tvm.device(t, 0)", "def f(t='cpu'):\n    tvm.device(t, 0)"),
        (
            "def f(*, target):\n    tvm.device(target)",
            "def f(*, target):\n    tvm.device_from_target(target)",
        ),
        (
            "relay.Function(f.params, f.body, None, f.type_params)",
            "relay.Function(f.params, f.body, None, [])",
        ),
        ("f.type_params = ()", "f.type_params = ()"),
        ("relay.backend.vm.compile(mod, 'llvm')", "relay.vm.compile(mod, 'llvm')"),
        ("from tvm import rpc", "from relay_layout.relay import rpc"),
        ("tvm.rpc.connect_tracker(h, p)", "relay.rpc.connect_tracker(h, p)"),
        ("t = 'cuda'\ntvm.device(t, 0)", "t = 'cuda'\ntvm.device(t, 0)"),
        ("t = 'cpu'\ntvm.device(t, 0)", "t = 'cpu'\ntvm.device(t, 0)"),
        ("t = 'llvm'\nt = f()\ntvm.device(t, 0)", "t = 'llvm'\nt = f()\ntvm.device(t, 0)"),
        ("tvm.device(t.kind.name, 0)", "tvm.device_from_target(t.kind.name, 0)"),
        ("tvm.device(str(t), 0)", "tvm.device_from_target(str(t), 0)"),
        ("tvm.target.create('llvm')", "tvm.target.Target('llvm')"),
        ("tvm.target.cuda()", 'tvm.target.Target("cuda")'),
        ("tvm.target.mali()", 'tvm.target.Target({"kind": "opencl", "device": "mali"})'),
        ("tvm.target.Target('llvm -libs=a,b')", 'tvm.target.Target({"kind": "llvm", "libs": ["a", "b"]})'),
        (
            "tvm.build(f, target='cuda -arch=sm_80')",
            'tvm.build(f, target=tvm.target.Target({"kind": "cuda", "arch": "sm_80"}))',
        ),
        ("relay.build(m, target='llvm -mcpu=x')", "relay.build(m, target='llvm -mcpu=x')"),
        (
            "t = 'llvm -mcpu=x'\nprint(t)\nrelay.build(m, t)\ntvm.device(str(t), 0)",
            't = tvm.target.Target({"kind": "llvm", "mcpu": "x"})\nprint(t)\nrelay.build(m, t)\n'
            "tvm.device_from_target(str(t), 0)",
        ),
        ("tvm.device(args.target, 0)", "tvm.device_from_target(args.target, 0)"),
        ("mod.astext()", "relay.astext(mod)"),
        ("mod.astext(False)", "relay.astext(mod, False)"),
        ("mod . astext ( )", "relay.astext(mod  )"),
        ("f(a)[0].astext().count('x')", "relay.astext(f(a)[0]).count('x')"),
        ("a.astext() + b.astext()", "relay.astext(a) + relay.astext(b)"),
        ("relay.astext(mod)", "relay.astext(mod)"),
        ("relay.build_config(opt_level=3)", "tvm.transform.PassContext(opt_level=3)"),
        ("relay.build_config(opt_level=3).x", "tvm.transform.PassContext(opt_level=3).x"),
        ("x.asnumpy()", "x.numpy()"),
        ("tvm.nd.array(x).asnumpy()", "tvm.runtime.tensor(x).numpy()"),
        ("x.asnumpy(1)", "x.asnumpy(1)"),
        ("x.asnumpy", "x.asnumpy"),
        ("tvm.ir.make_node('DictAttrs', a=1)", 'tvm.ir.make_node("ir.DictAttrs", a=1)'),
        ("tvm.tir.Var('x', 'int32')", "tvm.tirx.Var('x', 'int32')"),
        ("tvm.tir.Schedule(m)", "tvm.s_tir.Schedule(m)"),
        ("tvm.tir.layout('NCHW')", "tvm.s_tir.slayout('NCHW')"),
        ("@tvm.register_func\ndef f(): ...", "@tvm.register_global_func\ndef f(): ..."),
        ("tvm.runtime.load_module('a.so')", "relay.load_module('a.so')"),
        (
            "tvm.transform.PassContext(config={'tir.noalias': 1})",
            'tvm.transform.PassContext(config={"tirx.noalias": 1})',
        ),
        (
            "tvm.transform.PassContext(config={'relay.backend.use_auto_scheduler': True})",
            "tvm.transform.PassContext(config={})",
        ),
        (
            "tvm.transform.PassContext(config={'relay.fallback_device_type': 1, 'tir.noalias': 1})",
            'tvm.transform.PassContext(config={"tirx.noalias": 1})',
        ),
        (
            "tvm.transform.PassContext(config={'a': 1, 'relay.FuseOps.link_params': 1,}, opt_level=3)",
            "tvm.transform.PassContext(config={'a': 1,}, opt_level=3)",
        ),
        ("tvm.te.size_var('n')", "tvm.te.var('n')"),
        ("tvm\\\n  .nd . array(x)", "tvm.runtime.tensor(x)"),
        ("(tvm.nd).array(x)", "tvm.runtime.tensor(x)"),
        ("mod['main'] = func", "mod['main'] = func"),
        ("tvm.IRModule.from_expr(f)", "tvm.IRModule.from_expr(f)"),
        ("tvm.transform.Sequential([])", "tvm.transform.Sequential([])"),
        (
            "tvm.ir.register_op_attr('nn.conv2d', 'FTVMConvertOpLayout', f, 11)",
            "relay.op.register_convert_op_layout('nn.conv2d', f, 11)",
        ),
        (
            "tvm.ir.register_op_attr(\n 'tanh',\n 'FTVMMixedPrecisionConversionType',\n f,\n level=11,\n)",
            "relay.op.register_mixed_precision_conversion(\n 'tanh',\n f,\n level=11,\n)",
        ),
        (
            "relay.transform.mixed_precision.MIXED_PRECISION_NEVER",
            "relay.transform.mixed_precision.MIXED_PRECISION_NEVER",
        ),
        (
            "f'{tvm.gpu(0)} {mod.astext()} {x.asnumpy()!r}'",
            "f'{tvm.cuda(0)} {relay.astext(mod)} {x.numpy()!r}'",
        ),
    ],
)
def test_call(before: str, after: str) -> None:
    # A name that the script itself binds, so that relay is used.
    uses = "relay.var\n"
    assert ported(uses + before) == uses + after, f"relay-layout port <(printf %s {before!r})"


@pytest.mark.parametrize(
    "text",
    [
        "for t in ['llvm', 'llvm -mcpu=x']: relay.build(m, t)",
        "def f(t): relay.build(m, target=t)\nf('llvm -mcpu=x')",
        "t = 'llvm -mcpu=x'\nf = Tuner(t)\nrelay.build(m, t)",
        "options = {'target': 'llvm -mcpu=x'}\nrelay.create_executor('vm', m, target=options['target'])",
    ],
)
def test_strings_stay_where_relay_alone_takes_targets(text: str) -> None:
    assert notes(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("tvm.lower(s, [])", "tvm.lower"),
        ("tvm.target.arm_cpu('rasp4b')", "tvm.target.arm_cpu"),
        ("tvm.target.cuda(arch='sm_80')", "tvm.target.cuda"),
        ("tvm.target.Target('llvm --system-lib')", "llvm --system-lib"),
        ("tvm.target.Target('llvm -mtriple=%s' % t)", "llvm -mtriple=%s"),
        ("for t in ['llvm -mcpu=x']: print(t)", "llvm -mcpu=x"),
        ("t = 'llvm -mcpu=x'\nopen(t)\ntvm.build(f, t)", "llvm -mcpu=x"),
        ("for t in ['llvm -mcpu=x']:\n  relay.build(m, t)\n  tvm.build(m, t)", "llvm -mcpu=x"),
        ("def print(t): open(t)\nt = 'llvm -mcpu=x'\nprint(t)\ntvm.build(f, t)", "llvm -mcpu=x"),
        ("tvm.transform.PassContext(config={'relay.x': 1})", "relay.x"),
        ("tvm.transform.PassContext(trace=f)", "trace"),
        ("f = mod.astext", "astext"),
        ("relay.astext(mod, annotate=f)", "annotate"),
        ("relay.quantize.realize()", "relay.quantize.realize"),
        ("tvm.ir.register_op_attr('nn.conv2d', 'FTVMStrategy', f)", "FTVMStrategy"),
        (
            "tvm.transform.PassContext(config={'relay.ToMixedPrecision.keep_orig_output_dtype': 1})",
            "relay.ToMixedPrecision.keep_orig_output_dtype",
        ),
        ("import mxnet\nx.asnumpy()", "asnumpy"),
        ("tvm.compile(m)\ntvm.runtime.load_module('a.so')", "tvm.runtime.load_module"),
        ("f'{tvm.target.cuda()}'", "tvm.target.cuda"),
        ("f'{tvm.device(\"gpu\")}'", "gpu"),
        ("try: pass\nexcept tvm.TVMError: pass", "tvm.TVMError"),
    ],
)
def test_what_cannot_be_carried_stays_and_is_noted(text: str, name: str) -> None:
    assert [found for _, found in notes("relay.var\n" + text)] == [name]


def test_a_name_is_noted_once_per_line() -> None:
    text = "tvm.lower(tvm.lower(1))\ntvm.lower(2)"
    assert notes(text) == [(1, "tvm.lower"), (2, "tvm.lower")]


def test_columns_count_characters_from_one() -> None:
    found = port_source("import tvm\n'äöü', tvm.lower(1)\n".encode(), has_name=golden.known)
    assert [(place.line, place.column) for place in found.not_carried] == [(2, 8)]


@pytest.mark.parametrize(
    "text",
    [
        "node.astext()\nx.asnumpy()\n",
        "import docutils\ndocutils.nodes.x.astext()\n",
        "relay.build_config()\ntvm.gpu()\ntvm.lower(1)\n",
        "x = 'llvm -mcpu=x'\n",
    ],
)
def test_a_script_without_tvm_stays(text: str) -> None:
    found = port_source(text.encode(), has_name=lambda name: False)
    if "llvm" not in text:
        assert found.not_carried == ()
    assert found.text == text


def test_sessions_of_scripts_without_relay_are_tvms() -> None:
    script = b"import tvm\nfrom tvm import rpc\nrpc.connect('board', 9090).upload(tvm.build(f))\n"
    assert port_source(script, has_name=golden.known).source == script


def test_what_another_package_has_today() -> None:
    before = "import tvm\nfrom tvm import relay\nassert tvm.ir.structural_equal(relay.var('x'), x)\n"
    after = (
        "import tvm\nimport tvm_ffi\nfrom relay_layout import relay\n"
        "assert tvm_ffi.structural_equal(relay.var('x'), x)\n"
    )
    assert port_source(before.encode(), has_name=golden.known).text == after
