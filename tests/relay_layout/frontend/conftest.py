"""Runs tables of small ONNX models through the importer and through ONNX Runtime.

A table is the module-level ``CASES`` of a test module: by name a dictionary of

nodes      the graph's body in the syntax of ``onnx.parser``; its result is ``y`` unless ``outputs`` is given
inputs     arrays fed at run time, ``{"x": IMAGE}`` if left out
constants  initializers
outputs    element type by output name, {"y": "float32"} if left out
opset      17 if left out; ``domains`` adds others
symbolic   False where the batch, the first extent of the first input, cannot be symbolic
ours       operators the module must consist of, sorted, where that matters
expected   the outputs, for what ONNX Runtime does not compute; or
oracle     other nodes, which ONNX Runtime computes in its place
rtol atol  tolerances, 1e-5 and 1e-6 if left out
"""

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relax

from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session

IMAGE = np.random.default_rng(1).standard_normal((2, 3, 7, 5)).astype("float32")
TARGET = tvm.target.Target({"kind": "llvm", "opt-level": 0})
Case = Mapping[str, Any]
Model = Any


def inputs_of(case: Case) -> dict[str, np.ndarray]:
    return dict(case.get("inputs", {"x": IMAGE}))


def model_of(case: Case, *, symbolic: bool = False) -> Model:
    """The ONNX model; with ``symbolic`` the batch, the first extent of its first input, is "N" throughout."""
    domains = {"": case.get("opset", 17), **case.get("domains", {})}
    opsets = ", ".join(f'"{domain}" : {version}' for domain, version in domains.items())
    outputs = case.get("outputs", {"y": "float32"})
    declared = ", ".join(f"float[unknown] {name}" for name in outputs)
    header = f"<ir_version: 8, opset_import: [{opsets}]> case () => ({declared})"
    model = onnx.parser.parse_model(f"{header} {{ {case['nodes']} }}")
    graph = model.graph
    inputs = inputs_of(case)
    batch = next(iter(inputs.values())).shape[:1] if inputs else ()
    for name, array in inputs.items():
        shape: list[Any] = list(array.shape)
        if symbolic and array.shape[:1] == batch and array.ndim:
            shape[0] = "N"
        dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(helper.make_tensor_value_info(name, dtype, shape))
    for name, array in case.get("constants", {}).items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
    del graph.output[:]
    for name, dtype in outputs.items():
        code = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        graph.output.append(helper.make_tensor_value_info(name, code, None))
    return model


def expected(model: Model, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    session = reference_session(model.SerializeToString())
    return list(session.run(None, dict(inputs)))


def wanted_of(case: Case) -> list[np.ndarray]:
    if "expected" in case:
        return list(case["expected"])
    return expected(model_of({**case, "nodes": case.get("oracle", case["nodes"])}), inputs_of(case))


def operators(module: tvm.IRModule) -> list[str]:
    """Names of the operators "main" calls, sorted."""
    found = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call):
            found.append(getattr(expression.op, "name", str(expression.op)))

    relax.analysis.post_order_visit(module["main"], visit)
    return sorted(found)


def assert_clean(module: tvm.IRModule) -> None:
    """One function, one dataflow block, no operator of constants alone."""
    assert [variable.name_hint for variable in module.get_global_vars()] == ["main"]
    relax.analysis.well_formed(module)
    blocks = module["main"].body.blocks
    assert len(blocks) <= 1 and all(isinstance(block, relax.DataflowBlock) for block in blocks)

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call):
            fields = [
                field
                for argument in expression.args
                for field in (argument.fields if isinstance(argument, relax.Tuple) else [argument])
            ]
            assert not all(isinstance(field, tvm.ir.GenericConst) for field in fields), expression

    relax.analysis.post_order_visit(module["main"], visit)


class Table:
    """The cases of one test module, imported one by one and compiled together."""

    def __init__(self, cases: Mapping[str, Case]) -> None:
        self.cases = cases
        self.modules: dict[str, tvm.IRModule] = {}
        self._machine: Any = None

    def run(self, name: str) -> list[np.ndarray]:
        """What the compiled case computes."""
        if self._machine is None:
            self._machine = relax.VirtualMachine(tvm.compile(self._together(), TARGET), tvm.cpu())
        inputs = inputs_of(self.cases[name.partition("/")[0]])
        return run_function(self._machine, function_name(name), inputs)

    def _together(self) -> tvm.IRModule:
        """One module with all functions of the cases that could be imported."""
        functions = {}
        for name, case in self.cases.items():
            for variant in variants(case):
                key = f"{name}/{variant}"
                try:
                    module = from_onnx(model_of(case, symbolic=variant == "symbolic"))
                except Exception:
                    continue
                self.modules[key] = module
                label = function_name(key)
                functions[label] = module["main"].with_attr("global_symbol", label)
        return tvm.IRModule(functions)


def run_function(machine: Any, name: str, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    result = machine[name](*(tvm.runtime.tensor(array) for array in inputs.values()))
    tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [tensor.numpy() for tensor in tensors]


def function_name(key: str) -> str:
    return "case_" + "".join(letter if letter.isalnum() else "_" for letter in key)


def variants(case: Case) -> list[str]:
    return ["static", "symbolic"] if case.get("symbolic", True) and inputs_of(case) else ["static"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    cases: Mapping[str, Case] | None = getattr(metafunc.module, "CASES", None)
    if cases is not None and "case_name" in metafunc.fixturenames:
        keys = [f"{name}/{variant}" for name, case in cases.items() for variant in variants(case)]
        metafunc.parametrize("case_name", keys)


@pytest.fixture(scope="module")
def table(request: pytest.FixtureRequest) -> Table:
    module: ModuleType = request.module
    return Table(module.CASES)


@pytest.fixture
def agree(table: Table) -> Callable[[str], None]:
    """Asserts that a case of the table imports cleanly and computes what ONNX Runtime does."""

    def check(key: str) -> None:
        name, _, variant = key.partition("/")
        case = table.cases[name]
        module = from_onnx(model_of(case, symbolic=variant == "symbolic"))
        assert_clean(module)
        if "ours" in case:
            assert operators(module) == [f"relax.{operator}" for operator in case["ours"]]
        wanted = wanted_of(case)
        got = table.run(key)
        assert len(got) == len(wanted)
        for ours, theirs in zip(got, wanted, strict=True):
            assert ours.shape == theirs.shape
            assert ours.dtype == theirs.dtype
            tolerances = {"rtol": case.get("rtol", 1e-5), "atol": case.get("atol", 1e-6)}
            if ours.dtype.kind == "f":
                np.testing.assert_allclose(ours, theirs, **tolerances)
            else:
                np.testing.assert_array_equal(ours, theirs)

    return check
