"""Which concatenations and slices stay apart from what is around them."""

from collections.abc import Callable
from typing import Any

import pytest
from tvm import relax

from relay_layout.lower.fusion.patterns import OPAQUE, PATTERN
from relay_layout.lower.memory.unfused_parts import prevent_fusion_of_parts
from tests.legalizing import legalized
from tests.relax_modules import main_of

Emit = Callable[[Any], Any]


def apart(body: Callable[[Emit, Any], Any]) -> list[bool]:
    """Of each concatenation and slice in a function of one image, whether it stays apart."""
    image = relax.Var("image", relax.TensorType((2, 4, 6, 16), "float32"))
    with main_of(image) as builder:
        builder.result = body(builder.emit, image)
    annotate = relax.transform.AnnotateTIROpPattern()
    module = prevent_fusion_of_parts(annotate(legalized(builder.finalize())))
    patterns = {
        str(variable.name_hint): int(function.attrs[PATTERN])
        for variable, function in module.functions_items()
        if str(variable.name_hint).startswith(("concat", "strided_slice"))
    }
    return [pattern == OPAQUE for _, pattern in sorted(patterns.items())]


def pooled(emit: Emit, image: Any) -> Any:
    return emit(relax.op.nn.max_pool2d(image, [1, 3], [1, 1], [0, 1, 0, 1]))


def joined(emit: Emit, *parts: Any) -> Any:
    return emit(relax.op.concat(list(parts), axis=3))


def read_by_windows(emit: Emit, image: Any) -> Any:
    return pooled(emit, joined(emit, pooled(emit, image), emit(relax.op.nn.relu(pooled(emit, image)))))


def read_once(emit: Emit, image: Any) -> Any:
    return emit(relax.op.nn.relu(joined(emit, pooled(emit, image), pooled(emit, pooled(emit, image)))))


def given_away(emit: Emit, image: Any) -> Any:
    result = joined(emit, pooled(emit, image), pooled(emit, pooled(emit, image)))
    return relax.Tuple([pooled(emit, result), result])


def of_the_input(emit: Emit, image: Any) -> Any:
    return pooled(emit, joined(emit, pooled(emit, image), image))


def of_the_same_twice(emit: Emit, image: Any) -> Any:
    part = pooled(emit, image)
    return pooled(emit, joined(emit, part, part))


def of_views(emit: Emit, image: Any) -> Any:
    part = emit(relax.op.reshape(pooled(emit, image), (2, 6, 4, 16)))
    return pooled(emit, joined(emit, part, pooled(emit, part)))


def cut(emit: Emit, image: Any) -> Any:
    return emit(relax.op.strided_slice(image, [3], [3], [9]))


def cut_for_windows(emit: Emit, image: Any) -> Any:
    return pooled(emit, cut(emit, pooled(emit, image)))


def cut_and_read_once(emit: Emit, image: Any) -> Any:
    return emit(relax.op.nn.relu(cut(emit, pooled(emit, image))))


def cut_from_the_input(emit: Emit, image: Any) -> Any:
    return pooled(emit, cut(emit, image))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (cut_for_windows, True),
        (cut_and_read_once, False),
        (cut_from_the_input, False),
        (read_by_windows, True),
        (of_views, True),
        (read_once, False),
        (given_away, False),
        (of_the_input, False),
        (of_the_same_twice, False),
    ],
)
def test_what_stays_apart(body: Callable[[Emit, Any], Any], expected: bool) -> None:
    assert apart(body) == [expected]


def test_what_is_joined_to_more_stays_apart() -> None:
    def body(emit: Emit, image: Any) -> Any:
        inner = joined(emit, pooled(emit, image), pooled(emit, pooled(emit, image)))
        return pooled(emit, joined(emit, inner, pooled(emit, image)))

    assert apart(body) == [True, True]
