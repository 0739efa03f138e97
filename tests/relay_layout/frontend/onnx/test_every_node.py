"""ONNX's own cases of its operators: each is right, or refused in one line. Left to the sweep."""

from pathlib import Path
from typing import Any

import pytest
from onnx import ModelProto

import relay_layout
from relay_layout.errors import RelayLayoutError
from tests.onnx_cases import PARTS, arrays_of, cases, mismatch, with_constants, with_wide_border

pytestmark = pytest.mark.slow


def session_of(model: ModelProto, folder: Path) -> Any:
    """A session, or why there is none."""
    try:
        relay_layout.compile(model).save(folder / "node.rla")
        return relay_layout.load(folder / "node.rla")
    except RelayLayoutError as error:
        assert "\n" not in str(error)
        return str(error)


def check(case: Any, folder: Path) -> None:
    model = with_wide_border(case.model)
    graph = model.graph
    session = session_of(model, folder)
    for given, wanted in case.data_sets:
        inputs = arrays_of(given, graph.input)
        if isinstance(session, str) and "constant" in session and not graph.initializer:
            session = session_of(with_constants(model, inputs), folder)
        if isinstance(session, str):
            return
        known = {spec.name for spec in session.inputs}
        feed = {
            declared.name: value
            for declared, value in zip(graph.input, inputs, strict=True)
            if declared.name in known
        }
        found = mismatch(list(session.run(feed).values()), wanted, graph.output)
        assert not found, found


@pytest.mark.parametrize("part", range(PARTS))
def test_cases_are_right_or_refused(part: int, tmp_path: Path) -> None:
    failures = []
    for case in cases()[part::PARTS]:
        try:
            check(case, tmp_path)
        except Exception as error:
            failures.append(f"{case.name}: {' '.join(str(error).split())[:200]}")
    assert not failures, "\n".join(failures)
