"""Times of kernels, as TVM's debug executor gave them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import InputError

DATA = np.ones((4, 8), "float32")


@pytest.fixture(scope="module")
def library():
    x = relay.var("x", shape=DATA.shape)
    y = relay.nn.softmax(relay.nn.dense(x, relay.const(np.ones((5, 8), "float32"))))
    return relay.build(tvm.IRModule.from_expr(relay.Function([x], y)), "llvm")


def test_a_profile_has_all_kernels(library):
    module = relay.debug_executor.create(library.get_graph_json(), library.get_lib(), tvm.cpu(), "folder")
    module.set_input("x", DATA)
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), np.full((4, 5), 0.2), rtol=1e-6)
    report = module.profile()
    assert len(report.calls) >= 2
    assert sum(call["Percent"] for call in report.calls) == pytest.approx(100)
    assert all(call["Operators"] for call in report.calls)
    names = [call["Name"] for call in report.calls]
    assert [row["Name"] for row in csv.DictReader(report.csv().splitlines())] == names
    assert json.loads(report.json())["run_us"] == report.run_us > 0
    assert all(name in str(report) for name in names)
    assert len(module.run_individual(number=2, repeat=1)) == len(names)


def test_kernels_that_take_as_long_as_each_other(library, monkeypatch):
    module = relay.debug_executor.create(library.get_graph_json(), library.get_lib(), tvm.cpu(), "folder")
    module.set_input("x", DATA)
    measured, operators = module.module.profile(1)
    tied = replace(measured, calls=tuple((name, 0.0) for name, _ in measured.calls))
    monkeypatch.setattr(module.module, "profile", lambda repeat: (tied, operators))
    calls = module.profile().calls
    assert [call["Percent"] for call in calls] == [pytest.approx(100 / len(calls))] * len(calls)


def test_the_constructor_of_later_scripts(library):
    created = library["debug_create"]("default", tvm.cpu())
    module = relay.debug_executor.GraphModuleDebug(created, [tvm.cpu()], library.get_graph_json(), ".")
    assert module.profile(x=DATA).calls
    with pytest.raises(ValueError, match="there are no collectors"):
        module.profile(collectors=[object()])


def test_inputs_are_needed(library):
    module = relay.debug_executor.create(library.get_graph_json(), library, tvm.cpu())
    with pytest.raises(InputError, match="missing input 'x'"):
        module.profile()


def test_names_that_are_gone():
    with pytest.raises(AttributeError, match="GraphModuleDebug and create are there"):
        getattr(relay.debug_executor, "DebugResult")  # noqa: B009


def test_results_between_operators_are_not_there(library):
    module = relay.debug_executor.create(library.get_graph_json(), library, tvm.cpu())
    with pytest.raises(AttributeError, match=r"'debug_get_output': a kernel computes several operators"):
        module.debug_get_output(3)
    assert not hasattr(module, "debug_nothing")
