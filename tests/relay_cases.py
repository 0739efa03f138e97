"""Graphs that a real Relay printed and ran: imported, run and converted here, beside its numbers and counts.

`python -m tests.relay_cases` prints the table; names of cases as arguments print only those.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

import relay_layout
from relay_layout.relay import transform
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.syntax import Module, print_text, read_json, read_text

DATA = Path(__file__).parent / "data" / "relay_cases"
TOLERANCE = 1e-5
"""Of the largest value of an output; Relay differs from itself by 7e-6 between layouts."""


@dataclass(frozen=True)
class Case:
    """One graph: its Relay module, inputs by parameter, and what Relay's outputs were at some places."""

    name: str
    content: Mapping[str, Any]

    @property
    def module(self) -> Module:
        """The module that Relay's text holds."""
        return read_text(self.content["before_text"], self.name)

    @property
    def inputs(self) -> dict[str, np.ndarray]:
        """The value of every parameter of main."""
        return {rule["name"].lstrip("%"): make_input(rule) for rule in self.content["inputs"]}

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Of a whole network: everything but the first parameter, which is the image."""
        inputs = self.inputs
        return dict(list(inputs.items())[1:]) if self.name.startswith("models/") else {}

    @property
    def conversions(self) -> list[tuple[Mapping[str, Sequence[str]], int | None]]:
        """Desired layouts, and how many transforms Relay's result had; None where Relay failed."""
        if "conversions" in self.content:
            return [
                (entry["desired_layouts"], entry["n_layout_transform_bound_folded"])
                for entry in self.content["conversions"]
            ]
        desired = self.content.get("desired_layouts")
        return [(desired, self.content.get("n_layout_transform"))] if desired else []


def cases() -> list[Case]:
    """Every case, in order of name."""
    files = sorted(path for path in DATA.glob("*/*.json") if path.parent.name != "json")
    return [Case(f"{path.parent.name}/{path.stem}", json.loads(path.read_text())) for path in files]


def json_modules() -> list[tuple[str, Module, Case]]:
    """The modules that are there in Relay's JSON form, with the case of the same graph."""
    by_name = {case.name: case for case in cases()}
    found = []
    for path in sorted((DATA / "json").glob("*.json")):
        kind, _, name = path.stem.partition("_")
        case = by_name[f"{'models' if kind == 'model' else kind}/{name}"]
        found.append((path.stem, read_json(path.read_bytes(), path.name), case))
    return found


def make_input(rule: Mapping[str, Any]) -> np.ndarray:
    """The array that a rule describes; a generator of its own for each, the cast last."""
    generator = np.random.default_rng(rule["seed"])
    shape, kind = tuple(rule["shape"]), rule["kind"]
    if kind == "normal":
        values = generator.standard_normal(shape) * rule["scale"] + rule["offset"]
    elif kind == "abs_normal":
        values = np.abs(generator.standard_normal(shape)) * rule["scale"] + rule["offset"]
    elif kind == "integers":
        values = generator.integers(rule["low"], rule["high"], shape) * rule.get("scale", 1)
    elif kind == "const":
        values = np.full(shape, rule["value"])
    else:
        assert kind == "rois", kind
        corner, half = generator.random((shape[0], 4)), rule["extent"] / 2
        first = corner[:, :2] * half
        values = np.concatenate([np.zeros((shape[0], 1)), first, first + 1 + corner[:, 2:] * half], axis=1)
    return np.asarray(values).astype(rule["dtype"])


def difference(case: Case, outputs: Sequence[np.ndarray]) -> float:
    """The worst difference from Relay's outputs, as a share of the largest value of the output."""
    expected = case.content["outputs"]
    assert len(outputs) == len(expected), f"{len(outputs)} outputs, {len(expected)} expected"
    worst = 0.0
    for want, have in zip(expected, outputs, strict=True):
        assert (list(have.shape), str(have.dtype)) == (want["shape"], want["dtype"])
        places = have.reshape(-1)[np.array(want["sample_index"], "int64")].astype("float64")
        values = np.array([float(value) for value in want["sample_value"]])
        worst = max(worst, float(np.abs(places - values).max(initial=0.0)) / (want["absmax"] + 1e-30))
    return worst


def imported(case: Case, module: Module | None = None, *, bind: bool = True) -> tvm.IRModule:
    """The Relax module; a network's weights become constants unless ``bind`` is False."""
    return from_tree(module or case.module, case.weights if bind else None, name=case.name)


def run(case: Case, module: tvm.IRModule) -> list[np.ndarray]:
    """The outputs of a module compiled without conversion."""
    compiled = relay_layout.compile(module, desired_layout="none")
    with tempfile.TemporaryDirectory() as folder:
        compiled.save(Path(folder) / "case.rla")
        session = relay_layout.load(Path(folder) / "case.rla")
    inputs = case.inputs
    return list(session.run({spec.name: inputs[spec.name] for spec in session.inputs}).values())


def round_trips(module: tvm.IRModule, name: str) -> bool:
    """Whether the module prints as Relay text that imports to the same module."""
    again = from_tree(read_text(print_text(to_tree(module)), name), name=name)
    return bool(tvm_ffi.structural_equal(module, again))


def convert(
    case: Case, module: tvm.IRModule, desired: Mapping[str, Sequence[str]]
) -> tuple[tvm.IRModule, int]:
    """The converted module and how many transforms more than before it runs.

    Those of weights that are inputs count, as they do in Relay; a transpose of the module that became a view
    counts as one less, because a transform has taken its place.
    """
    with transform.LayoutConfig(skip_layers=case.content.get("skip_layers") or []):
        converted, report = transform.convert_layouts(module, desired)
    chosen = report.plan.solution.signatures.items()
    replaced = sum(node.operator == "permute_dims" and signature.alias for node, signature in chosen)
    return converted, report.layout_transforms + report.layout_transforms_weights - replaced


def rows(names: Sequence[str]) -> Iterator[list[str]]:
    """One row of the table for each conversion of each case."""
    for case in cases():
        if names and not any(name in case.name for name in names):
            continue
        module = imported(case)
        plain = difference(case, run(case, module))
        same = "yes" if round_trips(imported(case, bind=False), case.name) else "NO"
        for desired, theirs in case.conversions or [({}, None)]:
            ours, after = "-", "-"
            if desired:
                converted, count = convert(case, module, desired)
                ours, after = str(count), f"{difference(case, run(case, converted)):.0e}"
            shown = ", ".join(f"{name} {' '.join(layouts)}" for name, layouts in desired.items())
            yield [case.name, f"{plain:.0e}", same, shown, ours, _count(theirs), after]


def main(names: Sequence[str]) -> None:
    """Print the table; SystemExit for names of none."""
    if names and not any(name in case.name for case in cases() for name in names):
        sys.exit(f"relay_cases: no case has {' or '.join(names)} in its name")
    header = ["case", "off", "round trip", "desired layouts", "transforms", "Relay's", "off after"]
    widths = [46, 7, 11, 44, 11, 8, 9]
    for row in [header, *rows(names)]:
        print(
            " ".join(cell[:width].ljust(width) for cell, width in zip(row, widths, strict=True)), flush=True
        )


def _count(theirs: int | None) -> str:
    return "-" if theirs is None else str(theirs)


if __name__ == "__main__":
    main(sys.argv[1:])
