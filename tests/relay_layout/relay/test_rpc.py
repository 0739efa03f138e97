"""Sessions with machines, which here are this process, a server and its tracker."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from relay_layout import relay
from relay_layout.relay import rpc
from relay_layout.relay.graph_executor import GraphModule

X = np.random.default_rng(0).standard_normal((2, 3)).astype("float32")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "net.tar"
    relay.build(relay.nn.relu(relay.var("x", shape=X.shape)), "llvm").export_library(path)
    return path


def test_a_network_on_this_machine(library: Path) -> None:
    remote = rpc.LocalSession()
    remote.upload(str(library))
    module = GraphModule(remote.load_module("net.tar")["default"](remote.cpu(0)))
    module.run(x=tvm.runtime.tensor(X))
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.maximum(X, 0))


def test_a_library_of_tvms(tmp_path: Path) -> None:
    a = te.placeholder((5,), name="a")
    function = te.create_prim_func([a, te.compute((5,), lambda i: a[i] + 1.0)])
    tvm.compile(function.with_attr("global_symbol", "add_one"), "llvm").export_library(tmp_path / "lib.so")
    remote = rpc.LocalSession()
    remote.upload(str(tmp_path / "lib.so"))
    data = np.arange(5, dtype="float32")
    result = tvm.runtime.tensor(np.zeros(5, "float32"), remote.cpu())
    remote.load_module("lib.so")["add_one"](tvm.runtime.tensor(data, remote.cpu()), result)
    np.testing.assert_array_equal(result.numpy(), data + 1)


def test_other_names_are_tvms() -> None:
    assert rpc.Server is tvm.rpc.Server
    for name in ("tracker", "nothing"):
        with pytest.raises(
            AttributeError, match=f"^module 'relay_layout.relay.rpc' has no attribute '{name}'$"
        ):
            getattr(rpc, name)
