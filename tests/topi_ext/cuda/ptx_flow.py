"""The order of a kernel's instructions in which lanes that have parted meet again soonest.

A compiler may print a block behind those that follow it. Here every block lies behind all from which it is
come to, but for loops: so of lanes at two places, those at the first are behind the others.
"""

from collections.abc import Sequence
from dataclasses import replace

from ptx_module import Instruction


def in_order(code: Sequence[Instruction]) -> list[Instruction]:
    """The same program by reverse postorder of its blocks, with branches to what no longer comes next."""
    begins = {0, *(found.target for found in code if found.target is not None)}
    begins |= {place + 1 for place, found in enumerate(code) if _leaves(found)}
    starts = sorted(begin for begin in begins if begin < len(code))
    ends = dict(zip(starts, [*starts[1:], len(code)], strict=True))
    order = _reverse_postorder(code, ends)
    placed: list[Instruction] = []
    moved: dict[int, int] = {}
    for place, begin in enumerate(order):
        moved[begin] = len(placed)
        placed += code[begin : ends[begin]]
        last, behind = placed[-1], ends[begin]
        goes_on = not _leaves(last) or last.guard is not None
        if goes_on and order[place + 1 : place + 2] != [behind]:
            placed.append(Instruction("bra", ("bra", "uni"), (), target=behind))
    return [found if found.target is None else replace(found, target=moved[found.target]) for found in placed]


def _leaves(instruction: Instruction) -> bool:
    return instruction.words[0] in ("bra", "ret", "exit")


def _reverse_postorder(code: Sequence[Instruction], ends: dict[int, int]) -> list[int]:
    """Blocks by their first instructions. Of two ways on, the one that lies behind the other is followed
    first: it is what leaves a loop.
    """
    found: list[int] = []
    seen = {0}
    pending = [(0, iter(_ways(code, 0, ends)))]
    while pending:
        begin, ways = pending[-1]
        way = next((one for one in ways if one not in seen), None)
        if way is None:
            found.append(begin)
            pending.pop()
        else:
            seen.add(way)
            pending.append((way, iter(_ways(code, way, ends))))
    return found[::-1]


def _ways(code: Sequence[Instruction], begin: int, ends: dict[int, int]) -> list[int]:
    last = code[ends[begin] - 1]
    ways = {last.target} if last.target is not None else set()
    if not _leaves(last) or last.guard is not None:
        ways.add(ends[begin])
    return sorted((way for way in ways if way is not None), reverse=True)
