"""Relay's virtual machine and its files, on the same libraries."""

from __future__ import annotations

import numpy as np
import pytest
import tvm

from relay_layout import relay

DATA = np.arange(6, dtype="float32").reshape(2, 3)


def test_bytecode_and_library_of_two_files(tmp_path):
    x, w = relay.var("x", shape=(relay.Any(), 3)), relay.var("w", shape=(3,))
    module = tvm.IRModule.from_expr(relay.Function([x, w], relay.nn.relu(x - w)))
    executable = relay.vm.compile(module, "llvm", params={"w": np.ones(3, "float32")})
    assert list(executable.get_params()) == ["w"]
    code, library = executable.save()
    library.export_library(tmp_path / "lib.so")
    executable.mod.export_library(tmp_path / "all.so")
    again = relay.vm.Executable.load_exec(code, relay.load_module(tmp_path / "lib.so"))
    for each in (executable, again, relay.load_module(tmp_path / "all.so")):
        found = relay.vm.VirtualMachine(each, tvm.cpu()).invoke("main", DATA)
        np.testing.assert_array_equal(found.numpy(), np.maximum(DATA - 1, 0))


def test_results_are_nested_as_the_function_nests_them():
    x = relay.var("x", shape=(2, 3))
    both = relay.Tuple([relay.Tuple([x + x, x * x]), relay.Tuple([x - relay.const(1.0)])])
    executable = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], both)), "llvm")
    again = relay.vm.Executable.load_exec(*executable.save())
    for each in (executable, again):
        (total, product), (less,) = relay.vm.VirtualMachine(each, tvm.cpu()).run(DATA)
        for found, wanted in ((total, DATA + DATA), (product, DATA * DATA), (less, DATA - 1)):
            np.testing.assert_array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("code", [b"", b"\xff", b"[]", b"{}"])
def test_bytecode_of_another_kind(code):
    x = relay.var("x", shape=(2, 3))
    _, library = relay.vm.compile(tvm.IRModule.from_expr(relay.nn.relu(x)), "llvm").save()
    with pytest.raises(
        ValueError, match=r"the bytecode is not what save\(\) of this package's executables gave"
    ):
        relay.vm.Executable.load_exec(code, library)


def test_a_library_of_another_kind():
    with pytest.raises(TypeError, match=r"load_exec takes what relay\.load_module gives, not str"):
        relay.vm.Executable.load_exec(b"", "lib.so")
