"""Networks on a board, which here is this process at the other end of a session."""

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import rpc

from relay_layout import relay
from relay_layout.errors import InputError, TargetError
from relay_layout.relay.building.board import Board
from relay_layout.relay.graph_executor import GraphModule

RNG = np.random.default_rng(0)
X = RNG.standard_normal((1, 3, 16, 16)).astype("float32")
W = RNG.standard_normal((8, 3, 3, 3)).astype("float32")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x, w = relay.var("x", shape=X.shape), relay.var("w", shape=W.shape)
    net = relay.nn.relu(relay.nn.conv2d(x, w, channels=8, kernel_size=(3, 3)))
    built = relay.build(tvm.IRModule.from_expr(relay.Function([x, w], net)), "llvm", params={"w": W})
    path = tmp_path_factory.mktemp("library") / "net.tar"
    built.export_library(path)
    return path


@pytest.fixture
def board() -> Board:
    return Board(rpc.LocalSession())


def test_two_networks_run_there(library: Path, board: Board) -> None:
    here = GraphModule(relay.load_module(library)["default"](tvm.cpu()))
    here.run(x=X)
    board.upload(library)
    board.upload(library, target="second.tar")
    for name in ("net.tar", "second.tar"):
        there = GraphModule(board.load_module(name)["default"](board.cpu(0)))
        there.set_input("x", X)
        there.run()
        np.testing.assert_array_equal(there.get_output(0).numpy(), here.get_output(0).numpy())


def test_times_are_taken_there(library: Path, board: Board) -> None:
    board.upload(library)
    there = GraphModule(board.load_module("net.tar")["default"](board.device("llvm -keys=cpu", 0)))
    result = there.benchmark(board.cpu(0), repeat=3, number=2, x=X)
    assert len(result.results) == 3 and 0 < result.mean < 1
    with pytest.raises(InputError) as caught:
        there.module.time_evaluator("get_output", board.cpu(0))
    assert str(caught.value) == "time_evaluator: 'get_output' cannot be timed on a board, only 'run'"


def test_other_files_are_sent_as_they_are(board: Board, tmp_path: Path) -> None:
    file = tmp_path / "labels.txt"
    file.write_text("cat\n")
    board.upload(file)
    board.upload(bytearray(b"dog\n"), target="more.txt")
    assert bytes(board.download("labels.txt")) == b"cat\n"
    assert bytes(board.download("more.txt")) == b"dog\n"


def test_what_was_not_uploaded(library: Path, board: Board) -> None:
    with pytest.raises(InputError) as caught:
        board.load_module("net.tar")
    assert str(caught.value) == (
        "no network 'net.tar' was uploaded, only none; upload what export_library wrote"
    )
    board.upload(library)
    with pytest.raises(AttributeError, match=r"^there is no function 'other', only 'default'$"):
        board.load_module("net.tar")["other"]


def test_a_network_that_is_here_runs_on_no_board(library: Path, board: Board) -> None:
    with pytest.raises(TargetError, match="what was built runs on the CPU"):
        relay.load_module(library)["default"](board.cpu(0))
