"""Graphs drawn in layers."""

import random

import pytest

from relay_layout.report.drawing import HEIGHT, WIDTH, draw

GRAPHS = {
    "one node": (1, []),
    "two nodes apart": (2, []),
    "a chain": (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    "a residual block": (5, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]),
    "an input of a late node": (5, [(0, 2), (2, 3), (1, 4), (3, 4)]),
    "the same edge twice": (2, [(0, 1), (0, 1)]),
}


def random_graph(seed: int) -> tuple[int, list[tuple[int, int]]]:
    generator = random.Random(seed)
    count = generator.randrange(2, 60)
    edges = [(generator.randrange(target), target) for target in range(1, count)]
    edges += [tuple(sorted(generator.sample(range(count), 2))) for _ in range(count // 2)]
    return count, edges


def cases() -> list[tuple[int, list[tuple[int, int]]]]:
    return [*GRAPHS.values(), *(random_graph(seed) for seed in range(20))]


@pytest.mark.parametrize("graph", cases(), ids=lambda graph: f"{graph[0]} nodes")
def test_nodes_do_not_overlap(graph: tuple[int, list[tuple[int, int]]]) -> None:
    nodes = draw(*graph).nodes
    for place, (x, y) in enumerate(nodes):
        for other_x, other_y in nodes[place + 1 :]:
            assert abs(x - other_x) >= WIDTH - 0.2 or abs(y - other_y) >= HEIGHT, f"draw{graph}"


@pytest.mark.parametrize("graph", cases(), ids=lambda graph: f"{graph[0]} nodes")
def test_edges_lead_down_through_their_bends(graph: tuple[int, list[tuple[int, int]]]) -> None:
    drawing = draw(*graph)
    for (source, target), bends in zip(graph[1], drawing.edges, strict=True):
        heights = [drawing.nodes[source][1], *(y for _, y in bends), drawing.nodes[target][1]]
        assert heights == sorted(set(heights)), f"draw{graph}"


def test_all_lies_within_the_picture() -> None:
    drawing = draw(*random_graph(3))
    for x, y in drawing.nodes:
        assert WIDTH / 2 <= x <= drawing.width - WIDTH / 2 + 0.1
        assert HEIGHT / 2 <= y <= drawing.height - HEIGHT / 2


def test_a_chain_is_straight() -> None:
    assert {x for x, _ in draw(*GRAPHS["a chain"]).nodes} == {WIDTH / 2}


def test_an_input_lies_just_above_its_first_reader() -> None:
    drawing = draw(*GRAPHS["an input of a late node"])
    late, reader = drawing.nodes[1], drawing.nodes[4]
    chain = drawing.nodes[3]
    assert late[1] == chain[1] < reader[1]


def test_an_edge_bends_in_every_layer_that_it_crosses() -> None:
    assert list(map(len, draw(*GRAPHS["a residual block"]).edges)) == [0, 0, 0, 2, 0]


def test_nothing_to_draw() -> None:
    assert draw(0, []).nodes == []
