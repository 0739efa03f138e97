"""Single operators beside ONNX Runtime, as a table: those of scripts/operators.txt, the slowest first.

Both run in this process, in turns, of as many threads; the least of all times counts. Inputs and outputs lie
as ONNX has them, so that a convolution has its image put into the layout of its kernel and its result put
back. The exit status is 1 where outputs are off.
"""

import argparse
import math
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper, parser

import relay_layout

OPERATORS = Path(__file__).with_name("operators.txt")
OPSET = 21
ROUNDS = 3
SECONDS = 0.04
"""The length of one runtime's turn."""
TOLERANCE = 1e-3
"""The largest error, as a share of the largest number of an output."""


@dataclass(frozen=True)
class Case:
    """A line of the file."""

    name: str
    tensors: tuple[str, ...]
    nodes: str
    opset: int

    @staticmethod
    def parse(line: str) -> "Case":
        name, tensors, nodes, *opset = (part.strip() for part in line.split("|"))
        named = tuple(part.strip() for part in tensors.split(";"))
        return Case(name, named, nodes, int(opset[0]) if opset else OPSET)

    def inputs(self) -> dict[str, np.ndarray]:
        return {name: array for name, array, is_constant in self._arrays() if not is_constant}

    def model(self) -> onnx.ModelProto:
        """All results of the last node are outputs."""
        graph = parser.parse_graph(f"operator () => () {{ {self.nodes} }}")
        for name, array, is_constant in self._arrays():
            if is_constant:
                graph.initializer.append(numpy_helper.from_array(array, name))
            else:
                dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
                graph.input.append(helper.make_tensor_value_info(name, dtype, array.shape))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in graph.node[-1].output)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    def _arrays(self) -> list[tuple[str, np.ndarray, bool]]:
        random = np.random.default_rng(0)
        found = []
        for text in self.tensors:
            name, constant, spec = re.fullmatch(r"(\w+) (= )?(.+)", text).groups()  # type: ignore[union-attr]
            found.append((name, _array(spec, random), constant is not None))
        return found


def _array(spec: str, random: np.random.Generator) -> np.ndarray:
    """Random numbers as a line asks for them: "int64[2,3] below 5"."""
    match = re.fullmatch(r"(\w+)\[([\d,]*)\] ?(.*)", spec)
    if match is None:
        raise ValueError(f"'{spec}' is no tensor, such as 'float32[2,3] positive'")
    dtype, extents, how = match.groups()
    shape = [int(extent) for extent in extents.split(",") if extent]
    *kind, number = how.split() or [""]
    if kind == ["different", "below"]:
        return random.permutation(int(number))[: math.prod(shape)].reshape(shape).astype(dtype)
    if kind == ["below"]:
        return random.integers(0, int(number), shape).astype(dtype)
    if kind == ["times"]:
        return (random.standard_normal(shape) * float(number)).astype(dtype)
    return _KINDS["bool" if dtype == "bool" else how](random, shape).astype(dtype)


def _boxes(random: np.random.Generator, shape: list[int]) -> np.ndarray:
    """Two corners each, the lower one first."""
    first, size = (random.uniform(0, 20, (*shape[:-1], 2)) for _ in range(2))
    return np.concatenate([first, first + size], -1)


_KINDS: dict[str, Callable[[np.random.Generator, list[int]], np.ndarray]] = {
    "": lambda random, shape: random.standard_normal(shape),
    "bool": lambda random, shape: random.standard_normal(shape) > 0,
    "positive": lambda random, shape: abs(random.standard_normal(shape)) + 0.1,
    "from 1": lambda random, shape: abs(random.standard_normal(shape)) + 1,
    "inside 1": lambda random, shape: np.tanh(random.standard_normal(shape)),
    "boxes": _boxes,
}


@dataclass(frozen=True)
class Measurement:
    """Microseconds of both, and how far outputs are off, of the largest number of each."""

    name: str
    ours: float
    other: float
    error: float

    @property
    def ratio(self) -> float:
        return self.ours / self.other

    def __str__(self) -> str:
        return f"| {self.name} | {self.ours:.1f} | {self.other:.1f} | {self.ratio:.2f} |"


def measure(case: Case, threads: int, folder: Path) -> Measurement:
    model, inputs = case.model(), case.inputs()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    theirs = onnxruntime.InferenceSession(model.SerializeToString(), options)
    artifact = folder / "operator.rla"
    relay_layout.compile(model, threads=threads).save(artifact)
    ours = relay_layout.load(artifact, threads=threads)
    error = max(map(_distance, ours.run(inputs).values(), theirs.run(None, inputs)), default=0.0)
    times = [
        (_least(lambda: ours.run(inputs)), _least(lambda: theirs.run(None, inputs))) for _ in range(ROUNDS)
    ]
    own, other = map(min, zip(*times, strict=True))
    return Measurement(case.name, own, other, error)


def _distance(have: np.ndarray, want: np.ndarray) -> float:
    if have.shape != want.shape:
        return math.inf
    have, want = have.astype(float), want.astype(float)
    same = (have == want) | (np.isnan(have) & np.isnan(want))
    largest = np.abs(want[np.isfinite(want)]).max(initial=1e-9)
    return float(np.where(same, 0, np.abs(have - want)).max(initial=0) / largest)


def _least(call: Callable[[], object]) -> float:
    """Microseconds of the fastest of the calls that a turn has time for, one at least."""
    least, start = math.inf, time.perf_counter()
    while True:
        before = time.perf_counter()
        call()
        after = time.perf_counter()
        least = min(least, after - before)
        if after - start > SECONDS:
            return least * 1e6


def main(arguments: Sequence[str] | None = None) -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("names", nargs="*", metavar="NAME", help="parts of names of operators (all of them)")
    options.add_argument("--threads", type=int, default=1, help="of both (1)")
    options.add_argument("--over", type=float, default=0.0, metavar="RATIO", help="list those above it (all)")
    given = options.parse_args(arguments)
    lines = OPERATORS.read_text().splitlines()
    cases = [Case.parse(line) for line in lines if line and not line.startswith("#")]
    cases = [case for case in cases if not given.names or any(name in case.name for name in given.names)]
    if not cases:
        options.error(f"no operator has {' or '.join(given.names)} in its name; {OPERATORS} names all")
    if given.threads < 1:
        options.error(f"--threads: expected a whole number from 1 on, got {given.threads}")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number, case in enumerate(cases, 1):
            print(f"\r{number} of {len(cases)}: {case.name:40}", end="", file=sys.stderr, flush=True)
            found.append(measure(case, given.threads, Path(folder)))
    print(file=sys.stderr)
    print("| operator | relay-layout, us | ONNX Runtime, us | ratio |\n|---|---|---|---|")
    for measurement in sorted(found, key=lambda each: -each.ratio):
        if measurement.ratio > given.over:
            print(measurement)
    mean = math.exp(sum(math.log(each.ratio) for each in found) / max(1, len(found)))
    ahead = sum(each.ratio < 1 for each in found)
    print(f"\n{len(found)} operators: {mean:.2f} in geometric mean, {ahead} below 1")
    wrong = [each for each in found if not each.error < TOLERANCE]
    for each in wrong:
        print(f"{each.name}: outputs are off by {each.error:.1e} of the largest", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
