"""Index maps between layouts, to the two layouts as text."""

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from tvm import tirx
from tvm.relax import prim_value

from relay_layout.errors import RelayLayoutError
from relay_layout.ir import Extent
from relay_layout.layout import Layout
from relay_layout.layout.transform import index_map

_FAR = 2**40
"""An index so large that blocks do not reach it, only primal dimensions do."""

_BLOCKS_END = 2**31


def map_between(source: Layout, target: Layout) -> tirx.IndexMap:
    """The index map of Relax for a transform of layouts."""
    moves = index_map(source, target)
    return tirx.IndexMap.from_func(
        lambda *index: [prim_value(entry) for entry in moves.map_index(index)],
        ndim=source.rank,
        index_dtype="int64",
    )


def layouts_of(
    index: tirx.IndexMap, source: Sequence[Extent], target: Sequence[Extent]
) -> tuple[str, str] | None:
    """Layouts, in letters from A on, whose transform is the index map from shape ``source`` to ``target``.

    None for a map that is no transform of layouts.
    """
    if len(source) > len(ascii_uppercase):
        return None
    groups = _groups(index)
    primal_sources: dict[int, int] = {}
    primal_targets: dict[int, int] = {}
    for number, positions in enumerate(groups):
        reach = {position: _reached(index, position, len(source)) for position in positions}
        furthest = max(positions, key=lambda position: max(reach[position], default=0))
        far = [at for at, value in enumerate(reach[furthest]) if abs(value) > _BLOCKS_END]
        if len(far) != 1:
            return None
        primal_sources[number] = furthest
        primal_targets[number] = far[0]
    letters = {
        number: ascii_uppercase[order]
        for order, number in enumerate(sorted(primal_sources, key=lambda number: primal_sources[number]))
    }
    owner = {position: number for number, positions in enumerate(groups) for position in positions}
    found = _owners_of_results(index, owner)
    texts = (
        _text([owner.get(at) for at in range(len(source))], primal_sources, letters, source),
        _text(found, primal_targets, letters, target),
    )
    if texts[0] is None or texts[1] is None:
        return None
    try:
        again = map_between(Layout.parse(texts[0]), Layout.parse(texts[1]))
    except RelayLayoutError:
        return None
    return (texts[0], texts[1]) if again.is_equivalent_to(index) else None


def _variables(index: tirx.IndexMap, expression: Any) -> list[int]:
    used = tirx.analysis.undefined_vars(expression)
    return [
        position
        for position, initial in enumerate(index.initial_indices)
        if any(variable.same_as(initial) for variable in used)
    ]


def _groups(index: tirx.IndexMap) -> list[set[int]]:
    """Source dimensions that belong to one axis, because a result needs them together."""
    groups: list[set[int]] = []
    for expression in index.final_indices:
        together = set(_variables(index, expression))
        if together:
            touching = [group for group in groups if group & together]
            groups = [group for group in groups if not group & together]
            groups.append(together.union(*touching))
    return groups


def _owners_of_results(index: tirx.IndexMap, owner: dict[int, int]) -> list[int | None]:
    return [
        owner[variables[0]] if (variables := _variables(index, expression)) else None
        for expression in index.final_indices
    ]


def _reached(index: tirx.IndexMap, position: int, rank: int) -> list[int]:
    """Where the map takes a far index along one dimension."""
    start = [_FAR if at == position else 0 for at in range(rank)]
    return [int(value) for value in index.map_indices(start)]


def _text(
    owners: Sequence[int | None], primal: dict[int, int], letters: dict[int, str], shape: Sequence[Extent]
) -> str | None:
    """A layout's text; a dimension that no index depends on is a block of one of the last axis."""
    text = ""
    for position, number in enumerate(owners):
        if number is not None and primal[number] == position:
            text += letters[number]
            continue
        if not isinstance(shape[position], int) or not letters:
            return None
        letter = letters[number] if number is not None else ascii_uppercase[len(letters) - 1]
        text += f"{shape[position]}{letter.lower()}"
    return text
