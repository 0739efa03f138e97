"""One small network with a hostile name in it, compiled once with a report."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from tvm import relax

import relay_layout
from relay_layout.report.files import read_report
from relay_layout.report.schema import Report

HOSTILE = "</script><script>window['taken']=1</script><img src=x onerror=\"window['taken']=1\">"


def network() -> object:
    """Two convolutions with a softmax over channels between them, which no block may cut."""
    random = np.random.default_rng(0)
    weights = [random.standard_normal(shape, dtype="float32") for shape in ((32, 16, 3, 3), (16, 32, 3, 3))]
    builder = relax.BlockBuilder()
    image = relax.Var("image", relax.TensorType((1, 16, 9, 11), "float32"))
    with builder.function("main", [image]):
        with builder.dataflow():
            first = builder.emit(relax.op.nn.conv2d(image, relax.const(weights[0]), padding=(1, 1)), "first")
            active = builder.emit(relax.op.nn.relu(first), "active")
            shares = builder.emit(relax.op.nn.softmax(active, axis=1), "shares")
            second = builder.emit(
                relax.op.nn.conv2d(shares, relax.const(weights[1]), padding=(1, 1)), HOSTILE
            )
            result = builder.emit_output(relax.op.nn.relu(second), "result")
        builder.emit_func_output(result)
    return builder.finalize()


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.rla``, and the report of its compilation as ``model.html``."""
    folder = tmp_path_factory.mktemp("report")
    relay_layout.compile(
        network(),
        desired_layout="NCHW16c",
        target="x86-64-v2",
        threads=1,
        winograd=False,
        report=folder / "model.html",
    ).save(folder / "model.rla")
    return folder


@pytest.fixture(scope="session")
def read(compiled: Path) -> Report:
    return read_report(compiled / "model.html")


@pytest.fixture
def report(read: Report) -> Report:
    """The report; a copy, to be changed."""
    return deepcopy(read)
