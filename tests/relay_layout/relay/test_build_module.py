"""``relay.build``: parameters, targets, layouts and what comes out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ArtifactError, InputError, ModelError, TargetError
from relay_layout.relay.build_module import GraphExecutorFactoryModule
from relay_layout.relay.building import targets
from relay_layout.relay.building.targets import build_target
from relay_layout.targets import resolve_target
from topi_ext.cuda.codegen.nvcc import find_nvcc

RNG = np.random.default_rng(0)
DATA = RNG.standard_normal((1, 16, 8, 8)).astype("float32")
PARAMS = {"weight": RNG.standard_normal((16, 16, 3, 3)).astype("float32")}


def network() -> relay.Function:
    data = relay.var("data", shape=DATA.shape)
    net = relay.nn.conv2d(data, relay.var("weight"), channels=16, kernel_size=(3, 3), padding=1)
    return relay.Function(relay.analysis.free_vars(net), relay.nn.relu(net))


def run(library: GraphExecutorFactoryModule, **inputs: np.ndarray) -> np.ndarray:
    module = relay.graph_executor.GraphModule(library["default"](tvm.cpu(0)))
    module.run(**inputs)
    result: np.ndarray = module.get_output(0).numpy()
    return result


def report(library: GraphExecutorFactoryModule) -> dict[str, Any]:
    return library.artifact.manifest.builds[0].report


@pytest.fixture(scope="module")
def plain() -> GraphExecutorFactoryModule:
    """The network with its weight as an input."""
    return relay.build(network(), "llvm")


@pytest.fixture(scope="module")
def bound() -> GraphExecutorFactoryModule:
    """The network with its weight built in, with layouts chosen."""
    with tvm.transform.PassContext(opt_level=3):
        return relay.build(tvm.IRModule.from_expr(network()), target="llvm", params=PARAMS)


def test_parameters_become_part_of_the_network(plain, bound):
    expected = run(plain, data=DATA, **PARAMS)
    np.testing.assert_allclose(run(bound, data=DATA), expected, rtol=1e-4, atol=1e-4)
    assert [spec.name for spec in bound.artifact.manifest.inputs] == ["data"]


def test_parameters_bound_by_name_are_no_inputs_any_more():
    module = tvm.IRModule.from_expr(network())
    module["main"] = relay.build_module.bind_params_by_name(module["main"], {**PARAMS, "other": DATA})
    assert [str(parameter.name) for parameter in module["main"].params] == ["data"]


def test_parameters_are_a_dictionary():
    with pytest.raises(ModelError, match=r"^params: a dictionary of arrays by name is needed, not list$"):
        relay.build(network(), "llvm", params=[1])


def test_the_weight_is_checked_against_numpy(plain):
    padded = np.pad(DATA, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, PARAMS["weight"]), 0)
    np.testing.assert_allclose(run(plain, data=DATA, **PARAMS), expected, rtol=1e-3, atol=1e-3)


def large_network() -> relay.Function:
    """One whose convolutions are worth the transforms around them, whatever the machine."""
    net = relay.var("data", shape=(1, 64, 28, 28))
    for number in range(3):
        net = relay.nn.conv2d(net, relay.var(f"weight{number}"), channels=64, kernel_size=(3, 3), padding=1)
    return relay.Function(relay.analysis.free_vars(net), net)


def test_layouts_are_chosen_from_level_three_on(plain, bound):
    assert "NCHW" not in report(plain)["layouts"].get("nn.conv2d", "")
    assert report(plain) != report(bound)
    weight = RNG.standard_normal((64, 64, 3, 3)).astype("float32")
    params = {f"weight{number}": weight for number in range(3)}
    with tvm.transform.PassContext(opt_level=3):
        chosen = relay.build(large_network(), "llvm", params=params)
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["AlterOpLayout"]):
        disabled = relay.build(large_network(), "llvm", params=params)
    with tvm.transform.PassContext(opt_level=2):
        below = relay.build(large_network(), "llvm", params=params)
    reports = [report(library)["layouts"] for library in (chosen, disabled, below)]
    assert reports[1] == reports[2] != reports[0]


def test_alter_layout_callbacks_are_asked_at_level_three():
    from relay_layout.relay import callbacks

    asked = []

    def alter(attrs, inputs, tinfos, out_type):
        asked.append((attrs.data_layout, tinfos[0].shape))
        return relay.nn.conv2d(*inputs, **attrs)

    relay.op.register_alter_op_layout("nn.conv2d", alter)
    try:
        with tvm.transform.PassContext(opt_level=3):
            library = relay.build(network(), "llvm", params=PARAMS)
    finally:
        callbacks.reset("nn.conv2d")
    assert asked == [("NCHW", DATA.shape)]
    assert run(library, data=DATA).shape == DATA.shape


def test_parameters_that_main_does_not_have_are_ignored():
    library = relay.build(network(), "llvm", params={**PARAMS, "other": np.zeros(3)})
    assert list(library.get_params()) == ["weight"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            np.zeros((16, 16, 3, 3)),
            r"'weight' is float64\[16, 16, 3, 3\], but the parameter is float32\[16, ",
        ),
        (
            np.zeros((16, 16), "float32"),
            r"'weight' is float32\[16, 16\], but the parameter is float32\[16, 16,",
        ),
    ],
)
def test_a_parameter_that_does_not_fit(value, message):
    with pytest.raises(ModelError, match=message):
        relay.build(network(), "llvm", params={"weight": value})


def test_graph_library_and_params_of_older_scripts(bound):
    graph, library, params = bound
    module = relay.graph_executor.create(graph, library, tvm.cpu(0))
    module.set_input("data", DATA)
    module.set_input(**params)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), run(bound, data=DATA))
    np.testing.assert_array_equal(params["weight"].numpy(), PARAMS["weight"])


def test_graph_json_tells_inputs_and_outputs(plain):
    graph = json.loads(plain.get_graph_json())
    assert [node["name"] for node in graph["nodes"]] == ["data", "weight", "main"]
    assert graph["arg_nodes"] == [0, 1]
    assert graph["heads"] == [[2, 0, 0]]
    assert graph["attrs"]["shape"][1] == [[1, 16, 8, 8], [16, 16, 3, 3], [1, 16, 8, 8]]
    assert plain.graph_json == plain.get_executor_config()


def test_libraries_are_exported_and_loaded(bound, tmp_path):
    path = tmp_path / "deploy.so"
    bound.export_library(str(path), fcompile=None)
    loaded = relay.load_module(path)
    np.testing.assert_array_equal(run(loaded, data=DATA), run(bound, data=DATA))
    again = tmp_path / "again.so"
    loaded.export_library(again)
    np.testing.assert_array_equal(run(relay.load_module(again), data=DATA), run(bound, data=DATA))


def test_parameters_are_given_again_to_a_library_from_a_file(bound, tmp_path):
    bound.export_library(tmp_path / "deploy.tar")
    module = relay.graph_executor.create(
        bound.graph_json, relay.load_module(tmp_path / "deploy.tar"), tvm.cpu()
    )
    module.load_params(relay.save_param_dict(bound.get_params()))
    module.run(data=DATA)
    np.testing.assert_array_equal(module.get_output(0).numpy(), run(bound, data=DATA))
    with pytest.raises(InputError, match="parameter 'weight' became part of the network"):
        module.set_input("weight", PARAMS["weight"] + 1)


def test_a_file_that_is_no_library(tmp_path):
    (tmp_path / "other.so").write_bytes(b"other")
    with pytest.raises(ArtifactError, match="is not a relay-layout artifact"):
        relay.load_module(tmp_path / "other.so")


def test_libraries_are_called_by_their_name():
    library = relay.build(relay.const(1.0) + relay.const(2.0), "llvm", mod_name="adder")
    assert library["adder"](tvm.cpu()).get_num_inputs() == 0
    with pytest.raises(AttributeError, match="there is no function 'other', only 'adder'"):
        library["other"]


def test_a_call_of_several_results_may_be_the_result():
    data = relay.var("x", shape=(6,))
    results = relay.create_executor("graph").evaluate(
        relay.Function([data], relay.split(data, (1, 4)).astuple())
    )(np.arange(6, dtype="float32"))
    assert [result.numpy().tolist() for result in results] == [[0], [1, 2, 3], [4, 5]]


def test_tuples_within_tuples_are_outputs_in_order():
    x = relay.var("x", shape=(4,))
    parts = relay.split(x, 2)
    function = relay.Function([x], relay.Tuple([relay.Tuple([x, parts.astuple()]), relay.exp(x)]))
    data = np.arange(4, dtype="float32")
    module = relay.graph_executor.GraphModule(relay.build(function, "llvm")["default"](tvm.cpu()))
    module.run(x=data)
    flat = [module.get_output(index).numpy() for index in range(module.get_num_outputs())]
    for result, expected in zip(flat, (data, data[:2], data[2:], np.exp(data)), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-6)
    (same, (low, high)), powers = relay.create_executor("graph").evaluate(function)(data)
    for result, expected in zip((same, low, high, powers), flat, strict=True):
        np.testing.assert_array_equal(result.numpy(), expected)


def test_modules_without_main_are_refused():
    with pytest.raises(ModelError, match="the module has no function main"):
        relay.build(tvm.IRModule(), "llvm")


def test_what_is_no_module_is_refused():
    with pytest.raises(TypeError, match="a module or a function is needed, not str"):
        relay.build("network", "llvm")


def test_parameters_where_they_were_before_relay_0_8():
    library = relay.build(network(), "llvm", None, PARAMS, "name")
    assert set(library.get_params()) == set(PARAMS)
    assert library.libmod_name == "name"


def test_executor_and_runtime_by_their_classes():
    executor = relay.backend.Executor("graph", {"link-params": True})
    assert executor["link-params"]
    assert relay.backend.vm is relay.vm
    library = relay.build(network(), "llvm", executor=executor, runtime=relay.backend.Runtime("cpp"))
    assert library.get_executor_config()


def test_executors_that_are_not_there():
    with pytest.raises(ValueError, match="executor aot: only the graph executor is there"):
        relay.backend.Executor("aot")
    with pytest.raises(ValueError, match="runtime crt: microTVM is gone"):
        relay.backend.Runtime("crt")
    with pytest.raises(ValueError, match="runtime crt: only the runtime cpp is there"):
        relay.build(network(), "llvm", runtime="crt")
    with pytest.raises(AttributeError, match="has no attribute 'te_compiler': there is one way to build"):
        relay.backend.te_compiler  # noqa: B018
    with pytest.raises(ValueError, match="executor aot: only the graph executor is there"):
        relay.build(network(), "llvm", executor="aot")
    with pytest.raises(ValueError, match="executor kind 'interpreter' is not known"):
        relay.create_executor("interpreter")


def test_optimize_gives_the_module_in_the_target_layout():
    with tvm.transform.PassContext(opt_level=3):
        module, params = relay.optimize(network(), "llvm", PARAMS)
    assert params == {}
    assert [str(parameter.name) for parameter in module["main"].params] == ["data"]
    assert "NCHW" in str(module)


@pytest.mark.parametrize("kind", ["debug", "graph", "vm"])
def test_executors_take_inputs_in_order_or_by_name(kind):
    x, y = relay.var("x", shape=(2, 2)), relay.var("y", shape=(2, 2))
    executor = relay.create_executor(kind, tvm.IRModule.from_expr(x - y), tvm.cpu(), "llvm")
    function = executor.evaluate()
    ones, twos = np.ones((2, 2), "float32"), tvm.runtime.tensor(np.full((2, 2), 2, "float32"))
    for result in (function(ones, twos), function(ones, y=twos), function(y=twos, x=ones)):
        np.testing.assert_array_equal(result.numpy(), np.full((2, 2), -1))
    with pytest.raises(InputError, match="3 arguments are given; the function takes 2"):
        function(ones, ones, ones)
    with pytest.raises(InputError, match="input 'x' is given twice"):
        function(ones, x=ones)


def test_executors_evaluate_expressions():
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    executor = relay.create_executor()
    assert executor.evaluate(relay.const([1.0, 2.0]) + 1).numpy().tolist() == [2, 3]
    assert executor.evaluate(x * y, {x: relay.const([1.0, 2.0])})(np.ones(2)).numpy().tolist() == [1, 2]
    single = executor.evaluate(relay.Function([x], relay.Tuple([x])))(np.ones(2))
    assert [entry.numpy().tolist() for entry in single] == [[1, 1]]
    with pytest.raises(ValueError, match="needs an expression where the executor has no module"):
        executor.evaluate()


def test_the_virtual_machine():
    x = relay.var("x", shape=(relay.Any(), 2))
    executable = relay.vm.compile(tvm.IRModule.from_expr(relay.Tuple([x + 1, x * 2])), "llvm")
    machine = relay.vm.VirtualMachine(executable, tvm.cpu())
    for rows in (1, 3):
        first, second = machine.run(np.ones((rows, 2), "float32"))
        assert (first.numpy().shape, second.numpy().tolist()) == ((rows, 2), [[2, 2]] * rows)
    machine.set_input("main", x=np.zeros((1, 2), "float32"))
    assert machine.invoke("main")[0].numpy().tolist() == [[1, 1]]
    assert machine.benchmark(tvm.cpu(), repeat=2, number=1).mean > 0
    with pytest.raises(ModelError, match="there is no function 'other', only 'main'"):
        machine.invoke("other")


@pytest.mark.parametrize(
    "target",
    [
        "llvm",
        None,
        ["llvm"],
        {"cpu": "llvm"},
        {tvm.cpu(): "llvm"},
        "llvm -device=cpu -keys=cpu",
        tvm.target.Target("llvm"),
        "native",
    ],
    ids=repr,
)
def test_targets_that_are_this_machine(target):
    assert str(build_target(target).tvm_target) == str(resolve_target("native").tvm_target)


def test_a_target_in_scope():
    with tvm.target.Target({"kind": "llvm", "mcpu": "core-avx2"}):
        assert str(build_target(None).tvm_target.attrs["mcpu"]) == "core-avx2"


@pytest.mark.parametrize(
    "target",
    [
        "llvm -mcpu=core-avx2 -num-cores=3",
        "llvm -mcpu core-avx2 -num-cores 3",
        '{"kind": "llvm", "mcpu": "core-avx2", "num-cores": 3}',
        {"kind": "llvm", "mcpu": "core-avx2", "num-cores": 3},
        tvm.target.Target({"kind": "llvm", "mcpu": "core-avx2", "num-cores": 3}),
    ],
    ids=repr,
)
def test_targets_with_options(target):
    resolved = build_target(target)
    assert (str(resolved.tvm_target.attrs["mcpu"]), resolved.threads) == ("core-avx2", 3)


def test_target_attributes_of_the_processor():
    assert list(build_target("llvm -mattr=+avx2,+fma").tvm_target.attrs["mattr"]) == ["+avx2", "+fma"]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("cuda -fast", "'-fast' is not understood; use arch"),
        ("opencl -device=mali", "kind 'opencl' has no kernels yet"),
        ("llvm -fast", "'-fast' is not understood; use mcpu, mattr, mtriple, num-cores"),
        ("llvm -num-cores=all", "num-cores: expected a whole number from 1 on, got 'all'"),
        ("", "the target is empty; use 'llvm'"),
        ("nothing", "target 'nothing' is not known"),
        (["llvm", "llvm"], "networks are not divided between devices"),
        ({"cpu": "llvm", "gpu": "cuda"}, "networks are not divided between devices"),
    ],
)
def test_targets_that_are_refused(target, message):
    with pytest.raises(TargetError, match=message):
        build_target(target)


@pytest.mark.parametrize(
    ("found", "name"),
    [("sm_80", "cuda-sm_80"), ("", None)],
)
def test_the_gpu_of_this_machine(found, name, monkeypatch):
    monkeypatch.setattr(targets, "gpu_architecture", lambda: found)
    if name is not None:
        assert build_target("cuda").name == name
        return
    with pytest.raises(TargetError) as caught:
        build_target("cuda")
    assert str(caught.value) == (
        "target cuda: no GPU is found here; say which one to build for, such as 'cuda -arch=sm_90'"
    )


def test_a_gpu_target_of_tvm_that_found_none(monkeypatch):
    monkeypatch.setattr(targets, "gpu_architecture", lambda: "")
    with pytest.raises(TargetError, match="no GPU is found here"):
        build_target(tvm.target.Target({"kind": "cuda", "arch": "sm_50"}))


@pytest.mark.parametrize(
    ("tag", "machine"), [("nvidia/nvidia-a100", "sm_80"), ("raspberry-pi/4b-aarch64", "aarch64 cortex-a72")]
)
def test_tags_of_tvm(tag, machine):
    assert build_target(tag).machine.name == machine


@pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")
def test_a_network_for_a_gpu(tmp_path):
    library = relay.build(network(), "cuda -arch=sm_90", params=PARAMS)
    assert (library.device.type, library.get_devices()) == ("cuda", ["cuda"])
    library.export_library(tmp_path / "net.so")
    loaded = relay.load_module(tmp_path / "net.so")
    with pytest.raises(TargetError, match=r"^device cpu: what was built runs on the GPU, tvm\.cuda\(\)$"):
        loaded["default"](tvm.cpu())


def test_devices_that_are_refused(plain):
    with pytest.raises(TargetError, match="device cuda: what was built runs on the CPU"):
        plain["default"](tvm.cuda(0))


def test_nothing_is_left_in_the_folder(bound, tmp_path):
    with pytest.raises(ArtifactError, match="does not exist"):
        bound.export_library(tmp_path / "absent" / "x.so")
    assert not list(Path(tmp_path).iterdir())


def test_an_input_that_is_a_tuple() -> None:
    pair = relay.var("pair", relay.TupleType([relay.TensorType((2,))] * 2))
    module = tvm.IRModule.from_expr(relay.Function([pair], relay.TupleGetItem(pair, 0)))
    message = "input 'pair' is a tuple of 2; make each of its tensors an input of its own"
    with pytest.raises(ModelError, match=message):
        relay.build(module, target="llvm")
