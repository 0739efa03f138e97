"""ONNX's own cases of its operators as nvcc compiles them, run by the machine for PTX. For the sweep."""

import re
from typing import Any

import numpy as np
import pytest
from gpu_memory import SimulationError
from onnx import ModelProto
from ptx_cases import run_ptx
from simulated_network import SimulatedNetwork

from relay_layout.errors import RelayLayoutError
from relay_layout.frontend import load_model
from relay_layout.lower.cuda_graph import check_extents
from tests.onnx_cases import PARTS, arrays_of, cases, mismatch, with_constants, with_wide_border
from topi_ext.cuda.codegen.nvcc import find_nvcc

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_nvcc() is None, reason="nvcc is not installed"),
]

REFUSED = "not supported|says at run time|for processors alone|constant|training mode|strings"
"""What lines say that refuse a case, on all targets or on GPUs."""


def network(model: ModelProto) -> SimulatedNetwork:
    found = SimulatedNetwork(load_model(model), "cuda-sm_80", layout="auto", run=run_ptx)
    check_extents(found.plain, "cuda-sm_80")
    return found


def check(case: Any) -> str:
    """What is wrong; nothing if it is refused, or beyond what is simulated."""
    given, wanted = case.data_sets[0]
    model = with_wide_border(case.model)
    inputs = arrays_of(given, model.graph.input)
    try:
        try:
            simulated = network(model)
        except RelayLayoutError:
            simulated = network(with_constants(model, inputs))
        named = dict(zip([value.name for value in model.graph.input], inputs, strict=True))
        results = simulated.run(*[named[name] for name in simulated.inputs])
    except RelayLayoutError as error:
        return "" if re.search(REFUSED, str(error)) else str(error)
    except SimulationError:
        return ""
    return mismatch(results, wanted, model.graph.output)


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_are_right_or_refused(part: int) -> None:
    """Three of each set of operators."""
    failures = []
    for case in cases(each=3)[part::PARTS]:
        with np.errstate(all="ignore"):
            found = check(case)
        if found:
            failures.append(f"{case.name}: {found}")
    assert not failures, "\n".join(failures)
