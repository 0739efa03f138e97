"""Recurrent layers beside ONNX Runtime: the table "Recurrent layers" of docs/kernels.md, as Markdown.

Each network is measured by ``relay-layout bench``: both in processes of their own, in turns, of as many
threads. What compiling takes is measured here, in a process that has compiled before. The exit status is 1
where outputs are off.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

import relay_layout
from relay_layout.bench.benchmark import REFERENCE, run_bench
from relay_layout.bench.peers import OURS


@dataclass(frozen=True)
class Network:
    """Layers of one kind on top of each other, over sequences of ``steps`` steps."""

    operator: str
    steps: int
    features: int
    hidden: int
    layers: int = 1
    directions: int = 1

    def __str__(self) -> str:
        count = "two " if self.layers == 2 else ""
        both = "bidirectional " if self.directions == 2 else ""
        plural = "s" if self.layers > 1 else ""
        return f"{count}{both}{self.operator}{plural} of {self.hidden}, of {self.features} features"

    def model(self, batch: int) -> onnx.ModelProto:
        """With random weights."""
        gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[self.operator]
        random = np.random.default_rng(0)
        nodes, weights, data, features = [], [], "x", self.features
        for layer in range(self.layers):
            rows = gates * self.hidden
            shapes = {"w": (rows, features), "r": (rows, self.hidden), "b": (2 * rows,)}
            names = [f"{name}{layer}" for name in shapes]
            for name, shape in zip(names, shapes.values(), strict=True):
                array = random.standard_normal((self.directions, *shape)) / self.hidden**0.5
                weights.append(numpy_helper.from_array(array.astype("float32"), name))
            direction = "bidirectional" if self.directions == 2 else "forward"
            options: dict[str, Any] = {"hidden_size": self.hidden, "direction": direction}
            if self.operator == "GRU":
                options["linear_before_reset"] = 1
            found = f"y{layer}"
            nodes.append(helper.make_node(self.operator, [data, *names], [found], **options))
            features = self.directions * self.hidden
            nodes += [
                helper.make_node("Transpose", [found], [f"{found}_turned"], perm=[0, 2, 1, 3]),
                helper.make_node("Reshape", [f"{found}_turned", "rows"], [f"{found}_joined"]),
            ]
            data = f"{found}_joined"
        weights.append(numpy_helper.from_array(np.array([0, 0, features]), "rows"))
        graph = helper.make_graph(
            nodes,
            "recurrent",
            [helper.make_tensor_value_info("x", 1, [self.steps, batch, self.features])],
            [helper.make_tensor_value_info(data, 1, [self.steps, batch, features])],
            weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


NETWORKS = (
    Network("LSTM", 32, 512, 256, layers=2, directions=2),
    Network("LSTM", 100, 40, 64),
    Network("LSTM", 200, 80, 128, layers=2, directions=2),
    Network("GRU", 64, 256, 256),
    Network("LSTM", 50, 512, 512),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where outputs are off, otherwise 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=1, help="sequences at once")
    parser.add_argument("--threads", type=int, default=2, help="of both")
    parser.add_argument("--seconds", type=float, default=5.0, help="running time of each on each network")
    options = parser.parse_args(arguments)
    seconds: dict[Path, float] = {}

    def compiled(model: Path, threads: int) -> Path:
        start = time.perf_counter()
        network = relay_layout.compile(model, threads=threads)
        seconds[model] = time.perf_counter() - start
        network.save(model.with_suffix(".rla"))
        return model.with_suffix(".rla")

    print("| | steps | the loop | ONNX Runtime | | compiled in |\n|---|---|---|---|---|---|")
    wrong = False
    with tempfile.TemporaryDirectory(prefix="relay-layout-recurrent-") as folder:
        # What is loaded and compiled once is nobody's time.
        relay_layout.compile(Network("GRU", 2, 8, 8).model(1), threads=options.threads)
        for place, network in enumerate(NETWORKS):
            file = Path(folder) / f"{place}.onnx"
            onnx.save(network.model(options.batch), file)
            result = run_bench(
                [(str(network), file)],
                [REFERENCE],
                threads=options.threads,
                seconds=options.seconds,
                ours=compiled,
                require_peers=True,
            )
            (found,) = result["models"]
            ours, theirs = (found["peers"].get(name) for name in (OURS, REFERENCE))
            if ours is None or theirs is None or not ours["agrees"]:
                wrong = True
                print(f"| {network} | {network.steps} | {found['failures'] or 'outputs are off'} |")
                continue
            (took,) = seconds.values()
            seconds.clear()
            cells = (
                str(network),
                str(network.steps),
                f"{ours['median_ms']:.2f}",
                f"{theirs['median_ms']:.2f}",
                f"{found['ratios'][REFERENCE]:.2f}",
                f"{took:.2f} s",
            )
            print(f"| {' | '.join(cells)} |", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
