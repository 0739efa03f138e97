"""Transforms that remain after layout conversion, by ours and by Relax's own ConvertLayout.

Both are asked to convert every convolution. A row for each network: how many convolutions run in that very
layout, and how many transforms of activations are left to do at run time, explicit transposes of the original
among them. Where channels do not divide by a block, ours takes a smaller one and Relax's pass converts
nothing; such rows are not compared. Relax's pass runs in a process of its own, so that one that it brings
down counts as an error.
"""

import argparse
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import tvm
from tvm import relax

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from relay_layout.graph import build_graph
from relay_layout.layout_request import LayoutRequest
from relay_layout.models import build, names, to_relax
from relay_layout.rewrite.convert_layout import convert_layout
from relay_layout.targets import resolve_target
from tests import layout_graphs

LAYOUTS = {"NHWC": "OHWI", "NCHW16c": "OIHW16o"}
"""Data layouts to compare, with the kernel layout that Relax's pass is given."""

SECONDS = 60.0
"""Time that Relax's pass may take."""

OPERATOR = "nn.conv2d"


@dataclass(frozen=True)
class Conversion:
    """What one pass made of a module; ``error`` where it made nothing."""

    converted: int = 0
    transforms: int = 0
    error: str = ""

    def __str__(self) -> str:
        return self.error or str(self.transforms)


@dataclass(frozen=True)
class Comparison:
    """Both conversions of one module."""

    name: str
    layout: str
    convolutions: int
    ours: Conversion
    theirs: Conversion

    @property
    def is_comparable(self) -> bool:
        """Whether Relax's pass brought as many convolutions into the layout."""
        return not self.theirs.error and self.theirs.converted >= self.ours.converted

    def __str__(self) -> str:
        brought = f"{self.ours.converted:6} {self.theirs.converted:6}"
        return f"{self.name:26} {self.convolutions:5} {brought} {self.ours!s:>6} {self.theirs!s:>6}"


def compare(name: str, module: tvm.IRModule, layout: str) -> Comparison:
    """Convert ``module``, whose function "main" is compared, to a data layout of :data:`LAYOUTS`."""
    module = normalized(module)
    convolutions = sum(node.operator == OPERATOR for node in build_graph(module["main"]).nodes)
    return Comparison(name, layout, convolutions, converted_by_us(module, layout), by_relax(module, layout))


def normalized(module: tvm.IRModule) -> tvm.IRModule:
    """In dataflow blocks, as Relax's pass wants it, and without what nothing reads."""
    module = relax.transform.ConvertToDataflow(min_size=1)(module)
    return relax.transform.Normalize()(relax.transform.DeadCodeElimination()(module))


def converted_by_us(module: tvm.IRModule, layout: str) -> Conversion:
    request = LayoutRequest.parse(desired_layouts={OPERATOR: [layout, "default"]})
    return measured(convert_layout(module, request, resolve_target("native", threads=1))[0], layout)


def by_relax(module: tvm.IRModule, layout: str) -> Conversion:
    """What Relax's pass leaves, or how it fails."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_converted_by_relax, args=(module, layout, sender))
    process.start()
    sender.close()
    try:
        answer = receiver.recv() if receiver.poll(SECONDS) else Conversion(error="takes too long")
    except EOFError:
        answer = Conversion(error="brings the process down")
    process.kill()
    process.join()
    return answer


def _converted_by_relax(module: tvm.IRModule, layout: str, sender: Connection) -> None:
    layouts = {f"relax.{OPERATOR}": [layout, LAYOUTS[layout]]}
    try:
        converted = relax.transform.ConvertLayout(layouts)(module)
        sender.send(measured(relax.transform.Normalize()(converted), layout))
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        sender.send(Conversion(error=f"error: {lines[-1][:60]}"))


def measured(module: tvm.IRModule, layout: str) -> Conversion:
    """Convolutions in the layout, and transforms of anything that is not constant."""
    nodes = build_graph(module["main"]).nodes
    convolutions = [node for node in nodes if node.operator == OPERATOR]
    converted = sum(str(node.attributes.data_layout) == layout for node in convolutions)
    transforms = [node for node in nodes if node.operator in ("permute_dims", "layout_transform")]
    return Conversion(converted, sum(node.operands[0].constant is None for node in transforms))


class Convolutions:
    """A function of convolutions under construction."""

    def __init__(self, channels: int, extent: int) -> None:
        self.builder = relax.BlockBuilder()
        self.image = relax.Var("image", relax.TensorType((1, channels, extent, extent), "float32"))

    def conv(self, data: relax.Var, outputs: int, kernel: int = 1) -> relax.Var:
        """A convolution, a bias, and an activation with an upper bound."""
        inputs = int(data.ty.shape.values[1])
        weight = relax.const(np.full((outputs, inputs, kernel, kernel), 0.01, "float32"))
        bias = relax.const(np.full((outputs, 1, 1), 0.1, "float32"))
        result = self.builder.emit(relax.op.nn.conv2d(data, weight, padding=kernel // 2))
        return self.builder.emit(relax.op.clip(self.builder.emit(relax.op.add(result, bias)), 0, 6))

    def function(self, body: Callable[[relax.Var], relax.Var]) -> tvm.IRModule:
        with self.builder.function("main", [self.image]):
            with self.builder.dataflow():
                result = self.builder.emit_output(body(self.image))
            self.builder.emit_func_output(result)
        return self.builder.finalize()


def inception_like(blocks: int) -> tvm.IRModule:
    """Blocks of four branches that are joined, after the first blocks of Inception v3."""
    net = Convolutions(32, 35)

    def body(value: relax.Var) -> relax.Var:
        for _ in range(blocks):
            pooled = net.builder.emit(relax.op.nn.avg_pool2d(value, (3, 3), (1, 1), (1, 1, 1, 1)))
            wide = net.conv(net.conv(value, 48), 64, 5)
            deep = net.conv(net.conv(net.conv(value, 64), 96, 3), 96, 3)
            branches = [net.conv(value, 64), wide, deep, net.conv(pooled, 32)]
            value = net.builder.emit(relax.op.concat(branches, axis=1))
        return value

    return net.function(body)


def densenet_like(layers: int) -> tvm.IRModule:
    """Layers that each read all earlier ones, normalised first, after DenseNet."""
    net = Convolutions(64, 28)

    def body(value: relax.Var) -> relax.Var:
        for _ in range(layers):
            channels = int(value.ty.shape.values[1])
            statistics = [relax.const(np.full(channels, number, "float32")) for number in (1, 0.1, 0.2, 1)]
            norm = net.builder.emit(relax.op.nn.batch_norm(value, *statistics, axis=1, training=False))
            rectified = net.builder.emit(relax.op.nn.relu(net.builder.emit(relax.TupleGetItem(norm, 0))))
            grown = net.conv(net.conv(rectified, 128), 32, 3)
            value = net.builder.emit(relax.op.concat([value, grown], axis=1))
        return value

    return net.function(body)


GRAPHS: dict[str, Callable[[], tvm.IRModule]] = {
    "inception-like, 3 blocks": lambda: inception_like(3),
    "densenet-like, 6 layers": lambda: densenet_like(6),
    "densenet-like, 16 layers": lambda: densenet_like(16),
}


def random_graphs() -> Iterator[tuple[str, tvm.IRModule]]:
    """Random graphs with a convolution, without end."""
    for seed in count():
        module = normalized(layout_graphs.random_module(seed, 4 + seed % 9))
        if any(node.operator == OPERATOR for node in build_graph(module["main"]).nodes):
            yield f"random {seed}", module


def networks(random: int) -> Iterator[tuple[str, tvm.IRModule]]:
    for name in names():
        yield name, to_relax(build(name))
    for name, make in GRAPHS.items():
        yield name, make()
    yield from islice(random_graphs(), random)


def main(arguments: list[str] | None = None) -> int:
    """Print the table and a summary; 1 if ours ever leaves more transforms."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layout", choices=LAYOUTS, default="NHWC", help="data layout of the convolutions")
    parser.add_argument("--random", type=int, default=20, metavar="N", help="random graphs to compare")
    options = parser.parse_args(arguments)
    print(f"{'':26} {'':5} {'in ' + options.layout:^13} {'transforms':^13}")
    print(f"{'graph':26} {'convs':>5} {'ours':>6} {'Relax':>6} {'ours':>6} {'Relax':>6}")
    more = fewer = errors = 0
    for name, module in networks(options.random):
        row = compare(name, module, options.layout)
        print(row)
        errors += bool(row.theirs.error)
        if row.is_comparable:
            more += row.ours.transforms > row.theirs.transforms
            fewer += row.ours.transforms < row.theirs.transforms
    print(f"ours leaves fewer on {fewer}, more on {more}; Relax's pass fails on {errors}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
