"""Which storages tensors that lie in one another get."""

from tvm import relax, tirx

from relay_layout.lower.memory.part_storage import LiveRange, Part, PartStorages, SharedStorage


def allocation(name: str, size: object) -> relax.VarBinding:
    call = relax.op.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "float32")
    return relax.VarBinding(relax.Var(name, relax.ObjectType()), call)


ROOM = {"small": 64, "large": 256}


def storages(joined: list[SharedStorage], **busy: list[LiveRange]) -> PartStorages:
    allocations = [allocation(name, size) for name, size in ROOM.items()]
    spans = {binding.var: busy.get(binding.var.name, []) for binding in allocations}
    return PartStorages(joined, allocations, spans)


def shared_storage(first: int, last: int, size: int | None) -> SharedStorage:
    return SharedStorage(first, last, size, 4, allocation("own", 8).value)


def sizes(found: PartStorages) -> dict[str, int]:
    return {binding.var.name: int(binding.value.args[0].values[0]) for binding in found.shared()}


def test_one_that_is_free_meanwhile_and_fits() -> None:
    storage = shared_storage(3, 5, 100)
    found = storages([storage], large=[(0, 2), (6, 9)])
    assert found.of(storage).name == "large"
    assert sizes(found) == ROOM


def test_one_that_is_free_becomes_longer() -> None:
    storage = shared_storage(3, 5, 100)
    found = storages([storage], large=[(5, 6)])
    assert found.of(storage).name == "small"
    assert sizes(found) == {**ROOM, "small": 100}


def test_one_more_where_none_is_free() -> None:
    storage = shared_storage(3, 5, 100)
    found = storages([storage], small=[(0, 3)], large=[(4, 4)])
    assert sizes(found) == {**ROOM, found.of(storage).name: 100}


def test_two_at_a_time_do_not_share() -> None:
    first, second = shared_storage(0, 4, 64), shared_storage(4, 6, 64)
    found = storages([first, second])
    assert found.of(first).name != found.of(second).name


def test_those_of_any_size_are_opened_where_they_begin() -> None:
    storage = shared_storage(3, 5, None)
    found = storages([storage])
    (binding,) = found.allocations_at(3)
    assert binding.var.same_as(found.of(storage))
    assert not found.allocations_at(4)
    assert sizes(found) == ROOM


def test_a_size_that_is_not_known_is_not_shared() -> None:
    unknown = allocation("unknown", tirx.Var("n", "int64"))
    storage = shared_storage(3, 5, 16)
    found = PartStorages([storage], [unknown], {})
    assert not found.of(storage).same_as(unknown.var)
    assert unknown.var.name not in sizes(found)


def test_parts_begin_where_tensors_may() -> None:
    storage = shared_storage(0, 1, 4096)
    assert Part(storage, 32).rows is None
    found = Part(storage, 35, 5, 20).rows
    assert found is not None
    assert (found.run, found.pitch, found.shift) == (5, 20, 3)


def test_those_of_any_size_have_room_for_where_parts_of_nothing_begin() -> None:
    storage = shared_storage(3, 5, None)
    storage.last_begin = 192
    (binding,) = storages([storage]).allocations_at(3)
    assert int(binding.value.args[0].values[0]) == 8 + 192
