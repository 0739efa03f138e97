"""Places for the nodes of a graph, in layers from top to bottom.

The method of Sugiyama, Tagawa and Toda (1981): every node lies in the layer after its last source, an edge
over several layers bends in each of them, nodes and bends of a layer are ordered by where their neighbours
are, and coordinates follow: the sum of squares of the distances to the neighbours is minimised layer by
layer, exactly, by pooling adjacent violators (Ayer and others, 1955).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

WIDTH, HEIGHT = 168.0, 50.0
"""The size of a node."""

SIDE_GAP, LAYER_GAP = 22.0, 34.0
_BEND_WIDTH, _BEND_WEIGHT = 10.0, 3.0
_SWEEPS = 8
_MOST_BENDS = 20_000
"""With more bends than this the longest edges go straight."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Drawing:
    """The centre of each node, and the points on the way of each edge, its ends left out."""

    nodes: list[Point]
    edges: list[list[Point]]
    width: float
    height: float


def draw(count: int, edges: Sequence[tuple[int, int]]) -> Drawing:
    """Place ``count`` nodes; every edge leads from a node to one with a higher number."""
    if not count:
        return Drawing([], [], 0.0, 0.0)
    layers = _layers(count, edges)
    layered = _Layered(layers, edges)
    layered.order()
    places = layered.coordinates()
    left = min(places)
    rows = [layer * (HEIGHT + LAYER_GAP) + HEIGHT / 2 for layer in range(max(layers) + 1)]
    points = [
        (round(place - left + WIDTH / 2, 1), rows[layer])
        for place, layer in zip(places, layered.layer_of, strict=True)
    ]
    return Drawing(
        points[:count],
        [[points[bend] for bend in bends] for bends in layered.bends],
        max(places) - left + WIDTH,
        rows[-1] + HEIGHT / 2,
    )


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each node: after its last source, and for a source just before its first reader."""
    layers = [0] * count
    for source, target in sorted(edges, key=lambda edge: edge[1]):
        layers[target] = max(layers[target], layers[source] + 1)
    has_source = {target for _, target in edges}
    first: dict[int, int] = {}
    for source, target in edges:
        first[source] = min(first.get(source, layers[target]), layers[target])
    for node, layer in first.items():
        if node not in has_source:
            layers[node] = layer - 1
    return layers


class _Layered:
    """Nodes and bends, by layer."""

    def __init__(self, layers: Sequence[int], edges: Sequence[tuple[int, int]]) -> None:
        self.count = len(layers)
        self.layer_of = list(layers)
        self.bends: list[list[int]] = [[] for _ in edges]
        self.above: list[list[int]] = [[] for _ in layers]
        self.below: list[list[int]] = [[] for _ in layers]
        left = _MOST_BENDS
        for place in sorted(range(len(edges)), key=lambda place: self._span(edges[place])):
            source, target = edges[place]
            previous = source
            if self._span(edges[place]) - 1 <= left:
                left -= max(0, self._span(edges[place]) - 1)
                for layer in range(self.layer_of[source] + 1, self.layer_of[target]):
                    bend = self._bend(layer)
                    self.bends[place].append(bend)
                    self._join(previous, bend)
                    previous = bend
            if self.layer_of[target] == self.layer_of[previous] + 1:
                self._join(previous, target)
        self.rows: list[list[int]] = [[] for _ in range(max(self.layer_of) + 1)]
        for item, layer in enumerate(self.layer_of):
            self.rows[layer].append(item)
        self.position = [0.0] * len(self.layer_of)
        for row in self.rows:
            self._number(row)

    def order(self) -> None:
        """Order every layer by the mean position of the neighbours above, then below, and so on."""
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            neighbours = self.above if down else self.below
            for row in self.rows if down else reversed(self.rows):
                means = {item: self._mean(item, neighbours[item]) for item in row}
                row.sort(key=means.__getitem__)
                self._number(row)

    def coordinates(self) -> list[float]:
        """Horizontal centres."""
        for row in self.rows:
            for item, offset in zip(row, self._offsets(row), strict=True):
                self.position[item] = offset
        for sweep in range(_SWEEPS):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                both = sweep >= _SWEEPS // 2
                wanted = [self._mean(item, self._around(item, down=down, both=both)) for item in row]
                weights = [1.0 if item < self.count else _BEND_WEIGHT for item in row]
                offsets = self._offsets(row)
                levels = _increasing(
                    [place - offset for place, offset in zip(wanted, offsets, strict=True)], weights
                )
                for item, level, offset in zip(row, levels, offsets, strict=True):
                    self.position[item] = level + offset
        return self.position

    def _around(self, item: int, *, down: bool, both: bool) -> list[int]:
        if both:
            return self.above[item] + self.below[item]
        return self.above[item] if down else self.below[item]

    def _mean(self, item: int, neighbours: Sequence[int]) -> float:
        if not neighbours:
            return self.position[item]
        return sum(self.position[each] for each in neighbours) / len(neighbours)

    def _offsets(self, row: Sequence[int]) -> list[float]:
        """How far right each item of a row is at least, the first at 0."""
        offsets = [0.0]
        for left, right in pairwise(row):
            offsets.append(offsets[-1] + (self._width(left) + self._width(right)) / 2 + SIDE_GAP)
        return offsets[: len(row)]

    def _width(self, item: int) -> float:
        return WIDTH if item < self.count else _BEND_WIDTH

    def _span(self, edge: tuple[int, int]) -> int:
        return self.layer_of[edge[1]] - self.layer_of[edge[0]]

    def _bend(self, layer: int) -> int:
        self.layer_of.append(layer)
        self.above.append([])
        self.below.append([])
        return len(self.layer_of) - 1

    def _join(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def _number(self, row: Sequence[int]) -> None:
        for place, item in enumerate(row):
            self.position[item] = float(place)


def _increasing(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The sequence that never falls with the least weighted sum of squared distances to ``values``."""
    blocks: list[tuple[float, float, int]] = []
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            upper, upper_weight, upper_count = blocks.pop()
            lower, lower_weight, lower_count = blocks.pop()
            weight_sum = lower_weight + upper_weight
            mean = (lower * lower_weight + upper * upper_weight) / weight_sum
            blocks.append((mean, weight_sum, lower_count + upper_count))
    return [level for level, _, count in blocks for _ in range(count)]
