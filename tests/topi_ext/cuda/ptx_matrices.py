"""Matrix instructions of PTX: ldmatrix, mma.sync, wmma and wgmma.

Source: PTX ISA, "Matrix Fragments for mma" of each shape, "ldmatrix", "Warp Level Matrix Instructions: wmma"
and "Asynchronous Warpgroup Level Matrix Instructions". Fragments are tables of the row and column of each
element that a lane has. How those of wmma lie is nobody's business, and here they lie as no other.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from gpu_memory import SimulationError
from ptx_module import Instruction
from ptx_movement import LANES, address, space_of
from ptx_operands import Step, reader, unknown, writer

_ELEMENTS = {
    "f16": np.dtype("f2"),
    "tf32": np.dtype("f4"),
    "f32": np.dtype("f4"),
    "u8": np.dtype("u1"),
    "s8": np.dtype("i1"),
    "s32": np.dtype("i4"),
}

Table = tuple[np.ndarray, np.ndarray]
"""Rows and columns of elements, by lane and place within the lane."""


def _table(place: Callable[[int, int, int], tuple[int, int]], count: int) -> Table:
    """Of ``place(group, member, i)``: four neighbouring lanes are a group."""
    found = [[place(lane >> 2, lane % 4, i) for i in range(count)] for lane in range(LANES)]
    table = np.array(found)
    return table[..., 0], table[..., 1]


@cache
def left_table(shape: str, element: str) -> Table:
    """Of A, rows by depth."""
    tables: dict[tuple[str, str], tuple[Callable[[int, int, int], tuple[int, int]], int]] = {
        ("m16n8k16", "f16"): (
            lambda g, t, i: (g if i < 2 or 4 <= i < 6 else g + 8, t * 2 + (i & 1) + (0 if i < 4 else 8)),
            8,
        ),
        ("m16n8k8", "f16"): (lambda g, t, i: (g if i < 2 else g + 8, t * 2 + (i & 1)), 4),
        ("m16n8k8", "tf32"): (lambda g, t, i: (g if i in (0, 2) else g + 8, t if i < 2 else t + 4), 4),
        ("m16n8k32", "8"): (
            lambda g, t, i: (
                g if i < 4 or 8 <= i < 12 else g + 8,
                t * 4 + (i & 3) + (0 if i < 8 else 16),
            ),
            16,
        ),
        ("m8n8k16", "8"): (lambda g, t, i: (g, t * 4 + i), 4),
    }
    return _table(*_chosen(tables, shape, element))


@cache
def right_table(shape: str, element: str) -> Table:
    """Of B, depth by columns."""
    tables: dict[tuple[str, str], tuple[Callable[[int, int, int], tuple[int, int]], int]] = {
        ("m16n8k16", "f16"): (lambda g, t, i: (t * 2 + (i & 1) + (0 if i < 2 else 8), g), 4),
        ("m16n8k8", "f16"): (lambda g, t, i: (t * 2 + i, g), 2),
        ("m16n8k8", "tf32"): (lambda g, t, i: (t if i == 0 else t + 4, g), 2),
        ("m16n8k32", "8"): (lambda g, t, i: (t * 4 + (i & 3) + (0 if i < 4 else 16), g), 8),
        ("m8n8k16", "8"): (lambda g, t, i: (t * 4 + i, g), 4),
    }
    return _table(*_chosen(tables, shape, element))


@cache
def sum_table(rows: int, columns: int) -> Table:
    """Of C and D with 32 bits an element; those of wgmma go on by eight columns."""
    if rows == 8:
        return _table(lambda g, t, i: (g, t * 2 + i), 2)
    return _table(lambda g, t, i: (g + i % 4 // 2 * 8, i // 4 * 8 + t * 2 + (i & 1)), columns // 2)


def _chosen(tables: dict[tuple[str, str], Any], shape: str, element: str) -> Any:
    found = tables.get((shape, "8" if element in ("u8", "s8") else element))
    if found is None:
        raise SimulationError(f"no fragments of {shape} of {element}")
    return found


def _fragment(parts: list[Any], element: str, warps: Any) -> np.ndarray:
    """Elements of registers: blocks, lanes, places."""
    registers = np.stack([np.broadcast_to(part(warps), warps.mask.shape) for part in parts], 1)
    found = registers.view(_ELEMENTS[element])
    if element == "tf32" and (registers[warps.mask] & 0x1FFF).any():
        raise SimulationError("a product takes a float32 that is not rounded to tf32")
    return found.reshape(-1, LANES, found.shape[1])


def _matrix(fragment: np.ndarray, table: Table, rows: int, columns: int) -> np.ndarray:
    whole = np.zeros((len(fragment), rows, columns), fragment.dtype)
    whole[:, table[0], table[1]] = fragment
    return whole


def _product(left: np.ndarray, right: np.ndarray, sums: np.ndarray, saturates: bool = False) -> np.ndarray:
    """Sums are rounded once; integers wrap around or end at their limits."""
    exact = np.matmul(left.astype(np.float64), right.astype(np.float64)) + sums
    if sums.dtype.kind == "f":
        return exact.astype(sums.dtype)
    limits = np.iinfo(np.int32)
    whole = exact.astype(np.int64)
    return (np.clip(whole, limits.min, limits.max) if saturates else whole).astype(np.int32)


def _parts(operand: Any) -> list[Any]:
    return [reader(part, "b32") for part in operand.parts]


def _multiply(instruction: Instruction) -> Step:
    """mma.sync of left operands by rows and right ones by columns."""
    words = instruction.words
    if words[1:3] != ("sync", "aligned") or words[4:6] != ("row", "col"):
        raise unknown(instruction)
    shape, kinds = words[3], [word for word in words[6:] if word != "satfinite"]
    saturates = "satfinite" in words
    rows, columns, depth = (int(number) for number in re.findall(r"\d+", shape))
    to, *operands = instruction.operands
    tables = [left_table(shape, kinds[1]), right_table(shape, kinds[2]), sum_table(rows, columns)]
    _check_counts(instruction, tables, kinds)
    reads = [_parts(operand) for operand in operands]
    writes = [writer(part, "b32") for part in to.parts]

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        one, two, three = (
            _matrix(_fragment(parts, kind, warps), table, *extents)
            for parts, kind, table, extents in zip(
                reads,
                (kinds[1], kinds[2], kinds[3]),
                tables,
                ((rows, depth), (depth, columns), (rows, columns)),
                strict=True,
            )
        )
        found = _product(one, two, three, saturates)[:, tables[2][0], tables[2][1]]
        bits = found.view(np.uint32).reshape(-1, len(writes))
        for place, write in enumerate(writes):
            write(warps, bits[:, place].copy())

    return run


def _check_counts(instruction: Instruction, tables: list[Table], kinds: list[str]) -> None:
    to, one, two, three = instruction.operands
    for operand, table, kind in zip(
        (one, two, three, to), (*tables, tables[2]), (*kinds[1:4], kinds[0]), strict=True
    ):
        if len(operand.parts) * 4 != table[0].shape[1] * _ELEMENTS[kind].itemsize:
            raise SimulationError(f"not as many registers as {instruction.operation} takes")


def _load_matrices(instruction: Instruction) -> Step:
    """Lane 8 i + r has the address of row r of matrix i; of each row, four lanes get 4 bytes each."""
    words = instruction.words
    if words[1:4] != ("sync", "aligned", "m8n8") or words[-1] != "b16" or space_of(instruction) != "shared":
        raise unknown(instruction)
    count, transposed = int(words[4][1:]), "trans" in words
    to, of = instruction.operands
    if len(to.parts) != count:
        raise unknown(instruction)
    writes, where = [writer(part, "b32") for part in to.parts], address(of, "shared")

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        shared = warps.launch.shared
        asked = warps.mask & (warps.lane < 8 * count)
        begins = shared.places(warps, where(warps), 16, asked)
        shared.races.reads(begins[asked], 16, warps.agents(asked))
        begins = begins.reshape(-1, LANES)
        rows = begins[:, : 8 * count].reshape(-1, count, 8)
        halves = shared.views[2][rows[..., None] // 2 + np.arange(8)]
        if transposed:
            halves = halves.swapaxes(2, 3)
        found = np.ascontiguousarray(halves).view(np.uint32)
        for place, write in enumerate(writes):
            write(warps, found[:, place].reshape(-1).copy())

    return run


def _fragments_of_wmma(instruction: Instruction) -> Step:
    """wmma of 16 x 16 x 16 float16 with float32 sums: a lane has a row of operands, half a row of sums."""
    words = instruction.words
    kinds = {"load": _wmma_load, "store": _wmma_store, "mma": _wmma_multiply}
    if "m16n16k16" not in words or words[1] not in kinds:
        raise unknown(instruction)
    return kinds[words[1]](instruction)


def _square(warps: Any, where: Any, stride: Any, width: int) -> np.ndarray:
    """Places of the elements of a square in shared memory, by blocks, rows and columns.

    Which lane has to do with which of them is not said; here it is the first with all.
    """
    begin = where(warps)
    step = np.broadcast_to(stride(warps), warps.mask.shape).astype(np.int64) * width
    inside = np.arange(16)
    found = np.empty((len(begin) // LANES, 16, 16), np.int64)
    for row in range(16):
        places = warps.launch.shared.places(warps, begin + row * step, 16)
        warps.launch.shared.places(warps, begin + row * step + 16 * width - 16, 16)
        found[:, row] = places[::LANES, None] // width + inside
    if (step.reshape(-1, LANES) != step[::LANES, None]).any() or (
        begin.reshape(-1, LANES) != begin[::LANES, None]
    ).any():
        raise SimulationError("wmma takes another address from each lane")
    return found


def _first_lanes(warps: Any, places: np.ndarray, width: int) -> tuple[np.ndarray, int, np.ndarray]:
    """Where in shared memory, how many bytes, and who: of the rows of squares of active warps."""
    chosen = warps.mask & (warps.lane == 0)
    rows = places[chosen[::LANES]][:, :, 0].reshape(-1) * width
    return rows, 16 * width, np.repeat(warps.agents(chosen), 16)


def _wmma_load(instruction: Instruction) -> Step:
    operation, order = instruction.words[2], instruction.words[5]
    if operation not in ("a", "b") or instruction.words[-1] != "f16" or space_of(instruction) != "shared":
        raise unknown(instruction)
    to, of, stride = instruction.operands
    writes, where, step = (
        [writer(part, "b32") for part in to.parts],
        address(of, "shared"),
        reader(stride, "u32"),
    )

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        shared, places = warps.launch.shared, _square(warps, where, step, 2)
        shared.races.reads(*_first_lanes(warps, places, 2))
        matrix = shared.views[2][places]
        matrix = matrix if order == "row" else matrix.swapaxes(1, 2)
        words = np.ascontiguousarray(np.concatenate([matrix, matrix[:, ::-1]], 1)).view(np.uint32)
        for place, write in enumerate(writes):
            write(warps, words[:, :, place].reshape(-1).copy())

    return run


def _wmma_store(instruction: Instruction) -> Step:
    if instruction.words[2] != "d" or instruction.words[5] != "row" or instruction.words[-1] != "f32":
        raise unknown(instruction)
    to, of, stride = instruction.operands
    reads, where, step = _parts(of), address(to, "shared"), reader(stride, "u32")

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        shared, places = warps.launch.shared, _square(warps, where, step, 4)
        chosen = warps.mask.reshape(-1, LANES).any(1)
        shared.races.writes(*_first_lanes(warps, places, 4))
        sums = _fragment(reads, "f32", warps).reshape(-1, 16, 16).view(np.uint32)
        shared.views[4][places[chosen]] = sums[chosen]

    return run


def _wmma_multiply(instruction: Instruction) -> Step:
    if instruction.words[3:] != ("aligned", "row", "col", "m16n16k16", "f32", "f32"):
        raise unknown(instruction)
    to, *operands = instruction.operands
    reads, writes = [_parts(operand) for operand in operands], [writer(part, "b32") for part in to.parts]

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        one, two = (_fragment(parts, "f16", warps) for parts in reads[:2])
        for operand in (one, two):
            if not np.array_equal(operand[:, :16], operand[:, :15:-1], equal_nan=True):
                raise SimulationError("wmma takes what it has not loaded")
        sums = _fragment(reads[2], "f32", warps).reshape(-1, 16, 16)
        found = _product(one[:, :16], two[:, :16], sums).reshape(-1, 8).view(np.uint32)
        for place, write in enumerate(writes):
            write(warps, found[:, place].copy())

    return run


def check_groups(launch: Any) -> None:
    """The four warps of a group must have issued the same products."""
    for begin in range(0, len(launch.warps), 4):
        group = launch.warps[begin : begin + 4]
        if any(warps.issued != group[0].issued for warps in group):
            raise SimulationError("warps of a group issue other products of wgmma")


_SWIZZLES = {0: 0, 1: 7, 2: 3, 3: 1}
"""Bits of an address above 6 that are added to those above 3, by bits 62 and 63 of a descriptor."""

_ROW_BYTES = {1: 128, 2: 64, 3: 32}


def _described(warps: Any, descriptors: np.ndarray, rows: int, element: str) -> np.ndarray:
    """Rows of 32 bytes that a descriptor names, of each block."""
    shared = warps.launch.shared
    words = descriptors.reshape(-1, LANES)
    chosen = warps.mask.reshape(-1, LANES).any(1)
    if (words[chosen] != words[chosen][:, :1]).any():
        raise SimulationError("wgmma takes another descriptor from each lane")
    found = np.zeros((len(words), rows, 32), np.uint8)
    for block in np.flatnonzero(chosen):
        word = int(words[block, 0])
        begin, stride = (word & 0x3FFF) << 4, (word >> 32 & 0x3FFF) << 4
        swizzle = word >> 62
        if swizzle == 0 or word >> 49 & 7:
            raise SimulationError("wgmma of tiles without a permutation, or with a base offset")
        line = _ROW_BYTES[swizzle]
        row = np.arange(rows)[:, None]
        linear = begin + row // 8 * stride + row % 8 * line + np.arange(32)
        permuted = linear ^ (linear >> 7 & _SWIZZLES[swizzle]) << 4
        offsets = permuted - shared.base
        if offsets.min() < 0 or offsets.max() >= shared.size:
            raise SimulationError("wgmma reads outside shared memory")
        places = offsets + block * shared.row
        shared.asynchronous(places, "wgmma")
        found[block] = shared.bytes[places]
    return found.view(_ELEMENTS[element])


def _warpgroup(instruction: Instruction) -> Step:
    words = instruction.words
    if words[1] == "fence":
        return _warpgroup_fence
    if words[1] == "commit_group":
        return lambda warps: warps.products.commit(warps.mask)
    if words[1] == "wait_group":
        allowed = instruction.operands[0].value
        return lambda warps: warps.products.wait(warps.mask, allowed)
    if words[1:4] != ("mma_async", "sync", "aligned"):
        raise unknown(instruction)
    return _warpgroup_multiply(instruction)


def _warpgroup_fence(warps: Any) -> None:
    warps.require_whole("wgmma.fence")
    warps.fenced = list(warps.registers)


def _warpgroup_multiply(instruction: Instruction) -> Step:
    """Each warp has 16 of 64 rows of sums; the right operand lies by columns."""
    _, _, _, _, shape, kind, left_kind, right_kind = instruction.words
    rows, columns, depth = (int(number) for number in re.findall(r"\d+", shape))
    to, left, right, add, *scales = instruction.operands
    expected = {"f16": [1, 1, 0, 0], "tf32": [1, 1]}.get(left_kind, [])
    if [scale.value for scale in scales] != expected or rows != 64:
        raise unknown(instruction)
    in_registers = hasattr(left, "parts")
    table = sum_table(16, columns)
    if len(to.parts) != table[0].shape[1] or depth * _ELEMENTS[left_kind].itemsize != 32:
        raise SimulationError(f"not as many registers as {instruction.operation} takes")
    sums = _parts(to)
    left_read = _parts(left) if in_registers else [reader(left, "b64")]
    right_read, added = reader(right, "b64"), reader(add, "pred")
    touched = [*to.parts, *(left.parts if in_registers else ())]

    def run(warps: Any) -> None:
        warps.require_whole(instruction.operation)
        if warps.fenced is None or any(
            warps.registers[part.place] is not warps.fenced[part.place] for part in touched
        ):
            raise SimulationError("wgmma takes registers that were written behind the last wgmma.fence")
        described = np.broadcast_to(right_read(warps), warps.mask.shape)
        first = None if in_registers else np.broadcast_to(left_read[0](warps), warps.mask.shape)
        keeps = np.broadcast_to(added(warps), warps.mask.shape)
        named = [described[warps.mask].tolist()] + ([] if first is None else [first[warps.mask].tolist()])
        warps.issued.append((instruction.text, *named))

        def multiply(mask: np.ndarray) -> None:
            outer = warps.mask, warps.active
            warps.activate(mask)
            if first is None:
                fragment = _fragment(left_read, left_kind, warps)
                one = _matrix(fragment, left_table("m16n8k8", "tf32"), 16, depth)
            else:
                whole = _described(warps, first, 64, left_kind)
                begin = warps.number % 4 * 16
                one = whole[:, begin : begin + 16]
            two = _described(warps, described, columns, right_kind)
            old = _matrix(_fragment(sums, kind, warps), table, 16, columns)
            old = np.where(keeps.reshape(-1, LANES)[:, :1, None], old, old.dtype.type(0))
            found = _product(one, two.swapaxes(1, 2), old)[:, table[0], table[1]]
            bits = found.view(np.uint32).reshape(-1, len(sums))
            for place, part in enumerate(to.parts):
                warps.put(part.place, bits[:, place].copy())
                warps.fenced[part.place] = warps.registers[part.place]
            warps.mask, warps.active = outer

        warps.products.add(warps.mask, multiply)

    return run


MAKERS: dict[str, Callable[[Instruction], Step]] = {
    "mma": _multiply,
    "ldmatrix": _load_matrices,
    "wmma": _fragments_of_wmma,
    "wgmma": _warpgroup,
}
"""By the first word of an operation."""
