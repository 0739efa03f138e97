"""That kernels of networks use memory only behind their wait for the kernel before, but for constants."""

import re

import pytest
import tvm
from ptx_module import parse_kernels
from ptx_text import compile_ptx
from ptx_waits import copied_early, early_problems
from simulated_network import SimulatedNetwork
from tvm import tirx
from tvm.ir import Call

from relay_layout import models
from relay_layout.ir import Constant, bindings_of, operator_name
from topi_ext.cuda.codegen.build import PIPELINE
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.codegen.tensor_maps import ENCODE_TILED
from topi_ext.cuda.codegen.window_maps import ENCODE_WINDOWS
from topi_ext.ir import nodes_of

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")

_KERNEL = re.compile(r"__global__ void (?:__launch_bounds__\(\d+\) )?(\w+)\(([^()]*)\) \{")


def products() -> models.Network:
    """Products of tiles, by wgmma with its default knobs, of slices, depthwise ones, and of few rows."""
    builder = models.NetworkBuilder("products")
    found = builder.input("input", (1, 64, 14, 14))
    for number, groups in enumerate((1, 1, 64)):
        found = builder.relu(
            builder.convolution(found, f"window{number}", 64, 3, padding=1, groups=groups, bias=True),
            f"relu{number}",
        )
    deep = builder.convolution(found, "deep", 512, 3, strides=2, padding=1, bias=True)
    deep = builder.convolution(deep, "deeper", 512, 3, padding=1, bias=True)
    pooled = builder.flatten(builder.global_average_pool(deep, "pooled"), "flat")
    return builder.build({"output": builder.dense(pooled, "classes", 10)})


def written_while_it_runs(module: tvm.IRModule) -> set[tuple[str, int]]:
    """Functions and places of their arguments that are anything but constants, results among them."""
    found = set()
    for binding in bindings_of(module["main"]):
        call = binding.value
        if operator_name(call) != "call_tir":
            continue
        name, arguments = str(call.args[0].name_hint), call.args[1].fields
        count = len(module[call.args[0]].params)
        constant = {place for place, argument in enumerate(arguments) if isinstance(argument, Constant)}
        found |= {(name, place) for place in range(count) if place not in constant}
    return found


def early_operands(simulated: SimulatedNetwork) -> set[tuple[str, int]]:
    """Functions and places of their arguments that some kernel copies from before its wait. Every kernel must
    have its wait where it should be.
    """
    scheduled = {str(variable.name_hint): func for variable, func in simulated.scheduled.functions_items()}
    functions = {name: func for name, func in scheduled.items() if isinstance(func, tirx.PrimFunc)}
    module = tvm.IRModule(
        {
            name: func.with_attr({"global_symbol": name, "tirx.is_scheduled": True})
            for name, func in functions.items()
        }
    )
    compiled = tvm.compile(module, simulated.target.multiprocessor.target(), tir_pipeline=PIPELINE)
    source = str(compiled.mod.imports[0].inspect_source("cuda"))
    arguments = {name: re.findall(r"(\w+)(?:,|$)", words) for name, words in _KERNEL.findall(source)}
    kernels = parse_kernels(compile_ptx(source, "sm_90"))
    assert kernels.keys() == arguments.keys()
    found = set()
    for name, kernel in kernels.items():
        assert early_problems(kernel) == [], name
        function = name.rpartition("_kernel")[0]
        for parameter in copied_early(kernel):
            argument = arguments[name][int(parameter.rsplit("_", 1)[1])]
            found.add((function, _place(functions[function], argument)))
    return found


def _place(func: tirx.PrimFunc, argument: str) -> int:
    """Which parameter a pointer or a tensor map of a kernel leads to."""
    if argument.endswith("_ptr"):
        return [parameter.name for parameter in func.params].index(argument.removesuffix("_ptr"))
    (call,) = (
        call
        for call in nodes_of(func.body, Call)
        if any(isinstance(given, tirx.Var) and given.name == argument for given in call.args)
        and any(getattr(given, "value", None) in (ENCODE_TILED, ENCODE_WINDOWS) for given in call.args)
    )
    named = set(nodes_of(call, tirx.Var))
    (place,) = (place for place, parameter in enumerate(func.params) if parameter in named)
    return place


def check(module: tvm.IRModule, precision: str) -> None:
    simulated = SimulatedNetwork(module, "cuda-sm_90", precision)
    early = early_operands(simulated)
    assert early
    assert early & written_while_it_runs(simulated.plain) == set()


def test_kernels_use_only_constants_before_they_wait() -> None:
    check(models.to_relax(products()), "fp16")


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["fp16", "tf32", "fp32"])
@pytest.mark.parametrize("name", models.names())
def test_kernels_of_built_in_networks_wait(name: str, precision: str) -> None:
    check(models.to_relax(models.build(name)), precision)
