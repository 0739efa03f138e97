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


def test_a_library_of_another_kind():
    with pytest.raises(TypeError, match=r"load_exec takes what relay\.load_module gives, not str"):
        relay.vm.Executable.load_exec(b"", "lib.so")
