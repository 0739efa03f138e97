"""Random ONNX graphs of tensors whose extents the data decide, beside ONNX Runtime.

``check(seed)`` reproduces one graph.
"""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import relay_layout
from tests.fuzzing import failure
from tests.onnx_nodes import Nodes
from tests.onnx_reference import reference_session

LENGTH = 12
"""Elements of each input."""


@dataclass
class Vectors(Nodes):
    """A graph, and the vectors that its nodes made, each with what its length is."""

    vectors: list[tuple[str, int]] = field(default_factory=list)
    numbers: int = 0

    def add(self, name: str, number: int | None = None) -> None:
        """A vector of a number of elements, by default of one that no other has."""
        if number is None:
            self.numbers += 1
            number = self.numbers
        self.vectors.append((name, number))

    def any(self) -> tuple[str, int]:
        return self.vectors[int(self.random.integers(len(self.vectors)))]

    # Steps

    def filtered(self) -> None:
        name, _ = self.any()
        least = self.constant(np.float32(self.random.choice([-9.0, 0.0, 0.5, 1.0, 9.0])))
        places = self.node(f"NonZero({self.node(f'Greater({name}, {least})')})")
        flat = self.node(f"Squeeze({places}, {self.constant([0])})")
        self.add(self.node(f"Gather({name}, {flat})"))

    def unary(self) -> None:
        name, number = self.any()
        operator = self.random.choice(["Relu", "Neg", "Tanh"])
        self.add(self.node(f"{operator}({name})"), number)

    def binary(self) -> None:
        name, number = self.any()
        others = [other for other, same in self.vectors if same == number]
        other = others[int(self.random.integers(len(others)))]
        self.add(self.node(f"{self.random.choice(['Add', 'Mul', 'Max'])}({name}, {other})"), number)

    def first(self) -> None:
        name, _ = self.any()
        start, end = sorted(self.random.integers(0, 6, 2).tolist())
        bounds = self.constant([start]), self.constant([end if self.random.random() < 0.7 else 2**63 - 1])
        self.add(self.node(f"Slice({name}, {', '.join(bounds)})"))

    def joined(self) -> None:
        names = [self.any()[0] for _ in range(int(self.random.integers(2, 5)))]
        self.add(self.node(f"Concat <axis=0> ({', '.join(names)})"))

    def best(self) -> None:
        name, _ = self.any()
        few = self.constant([int(self.random.integers(1, 8))])
        both = self.node(f"Concat <axis=0> ({few}, {self.node(f'Shape({name})')})")
        number = self.node(f"ReduceMin <keepdims=1> ({both})")
        values, places = self.name(), self.name()
        self.nodes.append(f"{values}, {places} = TopK <largest={self.random.integers(2)}> ({name}, {number})")
        self.add(values)
        self.add(self.node(f"Gather({name}, {places})"), self.numbers)

    def product(self) -> None:
        name, number = self.any()
        column = self.node(f"Unsqueeze({name}, {self.constant([1])})")
        row = self.constant(self.random.standard_normal((1, 5)).astype("float32"))
        matrix = self.constant(self.random.standard_normal((5, 3)).astype("float32"))
        found = self.node(f"MatMul({self.node(f'Mul({column}, {row})')}, {matrix})")
        self.add(self.node(f"ReduceSum <keepdims=0> ({found}, {self.constant([1])})"), number)

    def twice(self) -> None:
        name, _ = self.any()
        two = self.node(f"Mul({name}, {self.constant(np.array([[1.0], [0.5]], 'float32'))})")
        if self.random.random() < 0.5:
            two = self.node(f"Transpose({two})")
        self.add(self.node(f"Reshape({two}, {self.constant([-1])})"))

    def filled(self) -> None:
        name, number = self.any()
        value = self.node(f"ConstantOfShape({self.node(f'Shape({name})')})")
        self.add(self.node(f"Sub({value}, {name})"), number)


STEPS = (
    Vectors.filtered,
    Vectors.unary,
    Vectors.binary,
    Vectors.first,
    Vectors.joined,
    Vectors.best,
    Vectors.product,
    Vectors.twice,
    Vectors.filled,
)


def random_model(seed: int) -> Any:
    """A graph of two inputs, of which the last vectors are outputs."""
    random = np.random.default_rng(seed)
    graph = Vectors(random)
    graph.add("x", 0)
    graph.add("y", 0)
    graph.filtered()
    for _ in range(int(random.integers(2, 8))):
        STEPS[int(random.integers(len(STEPS)))](graph)
    names = [name for name, _ in graph.vectors[-2:]]
    outputs = [graph.node(f"Identity({name})") for name in names]
    declared = ", ".join(f"float[n{place}] {name}" for place, name in enumerate(outputs))
    return graph.model(f"(float[{LENGTH}] x, float[{LENGTH}] y) => ({declared})", opset=17)


def fuzzed(seed: int) -> str | None:
    """The reproducer of a graph that fails, None if it does not."""
    return failure(__name__, check, seed)


def check(seed: int) -> None:
    """One artifact gives what ONNX Runtime gives, of data that leave many elements, some, and none."""
    model = random_model(seed)
    reference = reference_session(model.SerializeToString())
    with TemporaryDirectory() as folder:
        relay_layout.compile(model, shipped_records=False, threads=1).save(Path(folder) / "model.rla")
        session = relay_layout.load(Path(folder) / "model.rla", threads=1)
    random = np.random.default_rng(seed)
    for scale in (1.0, 0.3, 0.0, 100.0):
        feed = {name: (random.standard_normal(LENGTH) * scale).astype("float32") for name in "xy"}
        expected, found = reference.run(None, feed), list(session.run(feed).values())
        for want, have in zip(expected, found, strict=True):
            assert have.shape == want.shape, (scale, have.shape, want.shape)
            np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-4)
