"""Operations that do the same to both parts of complex numbers, and those that make complex tensors."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from relay_layout.frontend.torch.complex_numbers.pair import REAL_TYPES, Pair, as_pair, paired
from relay_layout.frontend.torch.rules.rule import aten

Rule = Callable[..., Any]

_BY_PARTS = {
    aten._unsafe_view: (0,),
    aten.alias: (0,),
    aten.cat: (0,),
    aten.clone: (0,),
    aten.constant_pad_nd: (0, 2),
    aten.copy: (0, 1),
    aten.cumsum: (0,),
    aten.diagonal: (0,),
    aten.expand: (0,),
    aten.flip: (0,),
    aten.gather: (0,),
    aten.index: (0,),
    aten.index_add: (0, 3),
    aten.index_put: (0, 2),
    aten.index_select: (0,),
    aten.lift_fresh_copy: (0,),
    aten.masked_fill: (0, 2),
    aten.mean: (0,),
    aten.neg: (0,),
    aten.pad: (0, 3),
    aten.permute: (0,),
    aten.repeat: (0,),
    aten.reshape: (0,),
    aten.resolve_neg: (0,),
    aten.roll: (0,),
    aten.scatter: (0, 3),
    aten.scatter_add: (0, 3),
    aten.select: (0,),
    aten.select_scatter: (0, 1),
    aten.slice: (0,),
    aten.slice_scatter: (0, 1),
    aten.split: (0,),
    aten.split_with_sizes: (0,),
    aten.squeeze: (0,),
    aten.sum: (0,),
    aten.t: (0,),
    aten.transpose: (0,),
    aten.tril: (0,),
    aten.triu: (0,),
    aten.unbind: (0,),
    aten.unfold: (0,),
    aten.unsqueeze: (0,),
    aten.view: (0,),
    aten.where: (1, 2),
}
"""Operations that are linear in their arguments at these places, which may be complex."""


def _by_parts(operation: Any, places: tuple[int, ...]) -> Rule:
    def rule(*arguments: Any, **options: Any) -> Any:
        options.pop("dtype", None)  # The types of results are made those of the program afterwards.
        given: tuple[list[Any], list[Any]] = ([], [])
        for place, argument in enumerate(arguments):
            both = _both(argument) if place in places else (argument, argument)
            for own, part in zip(given, both, strict=True):
                own.append(part)
        real, imaginary = (operation(*own, **options) for own in given)
        return Pair(real, imaginary) if isinstance(real, Tensor) else [*map(Pair, real, imaginary)]

    return rule


def _both(value: Any) -> tuple[Any, Any]:
    """The real and the imaginary part of what a linear operation is given, a list of tensors as well."""
    if isinstance(value, list | tuple):
        real, imaginary = zip(*map(_both, value), strict=True)
        return list(real), list(imaginary)
    if isinstance(value, Pair | Tensor):
        pair = as_pair(value)
        return pair.real, pair.imaginary
    return (None, None) if value is None else (complex(value).real, complex(value).imag)


def _filled(operation: Any) -> Rule:
    """Tensors filled with a number, by an operation of a shape, or of another tensor, and the number."""

    def rule(like: Any, number: complex = 0.0, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
        shape = like.real if isinstance(like, Pair) else like
        real_type = REAL_TYPES.get(dtype, dtype) if dtype else None
        options = {name: value for name, value in options.items() if name != "memory_format"}
        parts = (complex(number).real, complex(number).imag)
        real, imaginary = (operation(shape, part, dtype=real_type, **options) for part in parts)
        return real if dtype and dtype not in REAL_TYPES else Pair(real, imaginary)

    return rule


def _converted(value: Pair | Tensor, *, dtype: torch.dtype | None = None, **options: Any) -> Any:
    """Real numbers become complex; of complex ones that are made real the real part is left."""
    if not isinstance(value, Pair):
        return paired(value.to(REAL_TYPES[dtype]) if dtype in REAL_TYPES else value, None)
    if dtype is None or dtype in REAL_TYPES:
        return Pair(value.real.clone(), value.imaginary.clone())
    return value.real.to(dtype)


def viewed(value: Pair) -> Tensor:
    """``view_as_real``: [..., 2]."""
    return torch.stack([value.real, value.imaginary], -1)


RULES: dict[Any, Rule] = {
    **{
        getattr(packet, overload): _by_parts(getattr(packet, overload), places)
        for packet, places in _BY_PARTS.items()
        for overload in packet.overloads()
        if not overload.endswith("out")
    },
    aten._to_copy.default: _converted,
    aten.detach.default: lambda value: value,
    aten.empty_like.default: _filled(torch.full_like),
    aten.full.default: _filled(torch.full),
    aten.full_like.default: _filled(torch.full_like),
    aten.ones_like.default: lambda value, **options: _filled(torch.full_like)(value, 1.0, **options),
    aten.resolve_conj.default: lambda value: value,
    aten.scalar_tensor.default: lambda number, **options: _filled(torch.full)((), number, **options),
    aten.view_as_complex.default: lambda value: Pair(value.select(-1, 0), value.select(-1, 1)),
    aten.view_as_real.default: viewed,
    aten.zeros_like.default: _filled(torch.full_like),
}
"""By operation: functions of its arguments, with a Pair for every complex tensor."""
