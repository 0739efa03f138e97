"""Exponentials and sigmoids of functions whose results are rounded."""

import re

import pytest
import tvm
from tvm import te, topi

from topi_ext.cuda.codegen.approximations import APPROXIMATE, approximate_functions
from topi_ext.cuda.codegen.nvcc import find_nvcc
from topi_ext.cuda.kernel import compile_module
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.elementwise import schedule_elementwise

pytestmark = pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed")


def silu(approximated: bool) -> tvm.IRModule:
    data = te.placeholder((8, 64), "float32", "data")
    halves = te.compute(data.shape, lambda i, j: te.exp(data[i, j]) / (data[i, j] + 2.0))
    schedule = schedule_elementwise(te.create_prim_func([data, topi.multiply(halves, topi.sigmoid(data))]))
    assert schedule is not None
    func = schedule.mod["main"].with_attr({"global_symbol": "silu", "tirx.is_scheduled": True})
    return tvm.IRModule({"silu": func.with_attr(APPROXIMATE, True) if approximated else func})


def source(approximated: bool) -> str:
    built = compile_module(silu(approximated), MULTIPROCESSORS["sm_80"])
    return str(built.mod.imports[0].inspect_source("cuda"))


def test_functions_that_say_so_are_approximate() -> None:
    """Lane by lane of a vector: four exponentials, and four sigmoids. Quotients stay what they are."""
    assert approximate_functions(silu(True)) == {"silu"}
    found = source(True)
    assert len(re.findall(r"\b__expf\(", found)) == 8
    assert len(re.findall(r"\b__fdividef\(", found)) == 4
    assert len(re.findall(r"\w/\w", found.split('extern "C" __global__')[-1])) == 4
    assert not re.findall(r"\bexpf\(", found)


def test_others_stay_exact() -> None:
    assert approximate_functions(silu(False)) == set()
    found = source(False)
    assert len(re.findall(r"\bexpf\(", found)) == 8
    assert not re.findall(r"__expf|__fdividef", found)
