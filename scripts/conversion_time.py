"""Time of layout conversion on networks of growing size, by phase, and how it grows.

Prints a row for each network and size, then the growth exponent of each network: the slope of log(seconds)
over log(operators), 1 where time is linear in size. ``--plot FILE`` also draws it, as SVG.
"""

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_layout.choice import plan
from relay_layout.layout_request import LayoutRequest
from relay_layout.rewrite import convert_layout as conversion
from relay_layout.rewrite.convert_layout import ConversionReport, convert_layout
from relay_layout.targets import resolve_target

CHANNELS = 32


class Network:
    """A function under construction, on images of ``CHANNELS`` channels."""

    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()
        self.image = relax.Var("image", relax.TensorType((1, CHANNELS, 14, 14), "float32"))
        self.operators = 0
        self._random = np.random.default_rng(0)

    def emit(self, expression: relax.Expr) -> relax.Var:
        self.operators += 1
        return self.builder.emit(expression)

    def vector(self, channels: int) -> relax.Expr:
        return relax.const(self._random.standard_normal((1, channels, 1, 1), dtype="float32"))

    def conv(self, data: relax.Var, kernel: int = 1) -> relax.Var:
        """Convolution, bias and activation: three operators."""
        channels = int(data.ty.shape.values[1])
        weight = self._random.standard_normal((CHANNELS, channels, kernel, kernel), dtype="float32")
        result = self.emit(relax.op.nn.conv2d(data, relax.const(weight), padding=kernel // 2))
        return self.emit(relax.op.nn.relu(self.emit(relax.op.add(result, self.vector(CHANNELS)))))


Block = Callable[[Network, relax.Var], relax.Var]


def residual(network: Network, data: relax.Var) -> relax.Var:
    """Two convolutions and the sum with what came in, as in ResNet."""
    branch = network.conv(network.conv(data, 3), 3)
    return network.emit(relax.op.nn.relu(network.emit(relax.op.add(data, branch))))


def inception(network: Network, data: relax.Var) -> relax.Var:
    """Four branches joined along the channels, then reduced to as many as came in."""
    pooled = network.emit(relax.op.nn.max_pool2d(data, (3, 3), (1, 1), (1, 1, 1, 1)))
    branches = [
        network.conv(data),
        network.conv(network.conv(data), 3),
        network.conv(network.conv(network.conv(data), 3), 3),
        network.conv(pooled),
    ]
    return network.conv(network.emit(relax.op.concat(branches, axis=1)))


def dense(network: Network, data: relax.Var) -> relax.Var:
    """Twelve layers, each of which reads everything before it, as in DenseNet."""
    features = [data]
    for _ in range(12):
        joined = network.emit(relax.op.concat(features, axis=1)) if len(features) > 1 else data
        scale = network.vector(int(joined.ty.shape.values[1]))
        normal = network.emit(relax.op.nn.relu(network.emit(relax.op.multiply(joined, scale))))
        features.append(network.conv(network.conv(normal), 3))
    return network.conv(network.emit(relax.op.concat(features, axis=1)))


def chain(network: Network, data: relax.Var) -> relax.Var:
    """A convolution and fifteen operators on single elements."""
    data = network.conv(data, 3)
    for _ in range(5):
        scaled = network.emit(relax.op.multiply(data, network.vector(CHANNELS)))
        data = network.emit(relax.op.clip(network.emit(relax.op.sigmoid(scaled)), 0, 6))
    return data


def transposed(network: Network, data: relax.Var) -> relax.Var:
    """A transpose on either side of a convolution, as in ONNX files that come from channels last."""
    last = network.emit(relax.op.permute_dims(network.conv(data, 3), [0, 2, 3, 1]))
    return network.emit(relax.op.permute_dims(network.emit(relax.op.nn.relu(last)), [0, 3, 1, 2]))


def elementwise(network: Network, data: relax.Var) -> relax.Var:
    """One operator on single elements after another, behind one convolution."""
    return network.emit(relax.op.nn.relu(data)) if network.operators else network.conv(data)


def mixed(network: Network, data: relax.Var) -> relax.Var:
    """One of each."""
    for block in (residual, inception, dense, chain, transposed):
        data = block(network, data)
    return data


NETWORKS: dict[str, Block] = {
    block.__name__: block for block in (residual, inception, dense, chain, transposed, mixed, elementwise)
}


def network(name: str, operators: int) -> tvm.IRModule:
    """A module whose main has that many operators of a kind of :data:`NETWORKS`, or a block more."""
    graph = Network()
    with graph.builder.function("main", [graph.image]):
        with graph.builder.dataflow():
            data = graph.image
            while graph.operators < operators:
                data = NETWORKS[name](graph, data)
            result = graph.builder.emit_output(data)
        graph.builder.emit_func_output(result)
    return graph.builder.finalize()


PHASES = {
    "graph": (plan, "build_graph"),
    "candidates": (plan, "collect_signatures"),
    "solver": (plan, "solve"),
    "rewrite": (conversion, "rewrite"),
    "verify": (conversion, "verify"),
}
"""The steps of a conversion: the module that calls each, and its name there."""


@contextmanager
def timed_phases() -> Iterator[dict[str, float]]:
    """Seconds by phase of the conversion that runs inside."""
    seconds = dict.fromkeys(PHASES, 0.0)
    originals = {phase: getattr(module, name) for phase, (module, name) in PHASES.items()}

    def timed(phase: str) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            start = time.perf_counter()
            try:
                return originals[phase](*arguments, **options)
            finally:
                seconds[phase] += time.perf_counter() - start

        return run

    for phase, (module, name) in PHASES.items():
        setattr(module, name, timed(phase))
    try:
        yield seconds
    finally:
        for phase, (module, name) in PHASES.items():
            setattr(module, name, originals[phase])


def measure(
    module: tvm.IRModule, layout: str, repeat: int
) -> tuple[dict[str, float], float, ConversionReport]:
    """Median seconds by phase, median seconds altogether, and the last report."""
    request, target = LayoutRequest.parse(layout), resolve_target("x86-64-v4", threads=2)
    phases, totals = [], []
    for _ in range(repeat):
        with timed_phases() as seconds:
            start = time.perf_counter()
            _, report = convert_layout(module, request, target)
            totals.append(time.perf_counter() - start)
        phases.append({**seconds, "other": totals[-1] - sum(seconds.values())})
    medians = {phase: statistics.median(run[phase] for run in phases) for phase in phases[0]}
    return medians, statistics.median(totals), report


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """The least-squares slope of log(seconds) over log(operators); not a number for a single size."""
    if len({size for size, _ in points}) < 2:
        return math.nan
    logs = [(math.log(size), math.log(seconds)) for size, seconds in points]
    return statistics.linear_regression(*zip(*logs, strict=True)).slope


def plot(series: Mapping[str, Sequence[tuple[int, float]]]) -> str:
    """The points of each network as SVG, on logarithmic axes, and a dashed line for linear growth."""
    points = [point for line in series.values() for point in line]
    low = [math.floor(math.log10(min(point[axis] for point in points))) for axis in range(2)]
    high = [
        max(low[axis] + 1, math.ceil(math.log10(max(point[axis] for point in points)))) for axis in range(2)
    ]
    left, top, width, height = 70, 20, 560, 380

    def place(size: float, seconds: float) -> tuple[float, float]:
        x = (math.log10(size) - low[0]) / (high[0] - low[0])
        y = (math.log10(seconds) - low[1]) / (high[1] - low[1])
        return left + x * width, top + (1 - y) * height

    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" width="800" height="460" font-family="sans-serif" '
        f'font-size="12"><rect x="{left}" y="{top}" width="{width}" height="{height}" fill="none" '
        'stroke="black"/>'
    ]
    for power in range(low[0], high[0] + 1):
        x, y = place(10.0**power, 10.0 ** low[1])
        parts.append(f'<text x="{x:.0f}" y="{y + 18:.0f}" text-anchor="middle">{10**power}</text>')
    for power in range(low[1], high[1] + 1):
        x, y = place(10.0 ** low[0], 10.0**power)
        parts.append(f'<text x="{x - 8:.0f}" y="{y + 4:.0f}" text-anchor="end">{10.0**power:g} s</text>')
    parts.append(
        f'<text x="{left + width / 2}" y="{top + height + 40}" text-anchor="middle">operators</text>'
    )
    for number, (name, line) in enumerate(series.items()):
        colour = f"hsl({360 * number // len(series)}, 70%, 40%)"
        places = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line)
        parts.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(
            f'<text x="{left + width + 12}" y="{top + 16 + 18 * number}" fill="{colour}">'
            f"{name} {exponent(line):.2f}</text>"
        )
    first, last = min(points), max(points)
    start, end = place(*first), place(last[0], first[1] * last[0] / first[0])
    ends = 'x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"'.format(*start, *end)
    parts.append(f'<line {ends} stroke="grey" stroke-dasharray="4"/></svg>\n')
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default="250,500,1000,2000,5000", help="operators, several with commas")
    parser.add_argument("--networks", default=",".join(NETWORKS), help=f"some of {', '.join(NETWORKS)}")
    parser.add_argument("--layout", default="auto", help="as for convert --desired-layout")
    parser.add_argument("--repeat", type=int, default=3, help="the median of so many runs is printed")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the growth as SVG")
    options = parser.parse_args(arguments)
    if options.repeat < 1:
        parser.error(f"--repeat: expected a whole number from 1 on, got {options.repeat}")
    names, sizes = options.networks.split(","), [int(size) for size in options.sizes.split(",")]
    unknown = sorted(set(names) - set(NETWORKS))
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    columns = [*PHASES, "other", "seconds"]
    print(
        f"{'network':12}{'operators':>10}"
        + "".join(f"{name:>11}" for name in columns)
        + "  transforms  status"
    )
    # What is loaded and compiled once is nobody's time.
    measure(network(names[0], 20), options.layout, 1)
    series: dict[str, list[tuple[int, float]]] = {}
    for name in names:
        for size in sizes:
            module = network(name, size)
            phases, seconds, report = measure(module, options.layout, options.repeat)
            operators = len(module["main"].body.blocks[0].bindings)
            cells = "".join(f"{value:11.3f}" for value in (*phases.values(), seconds))
            print(
                f"{name:12}{operators:10}{cells}{report.layout_transforms:12}  {report.solver_status}",
                flush=True,
            )
            series.setdefault(name, []).append((operators, seconds))
    for name, line in series.items():
        print(f"{name:12}grows with operators to the power of {exponent(line):.2f}")
    if options.plot is not None:
        options.plot.write_text(plot(series), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
