"""What goes into and comes out of a compiled model, and whether given arrays are that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_layout.artifact import fields
from relay_layout.errors import ArtifactError, InputError

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a compiled model.

    name: as in the model.
    shape: an int per fixed dimension, a name per dimension that is only known at run time.
    dtype: numpy's name, such as ``float32``.
    layout: the order in memory, such as ``NCHW`` or ``NCHW16c``; empty if it has none.
    dim_order: for each position in memory the logical dimension there, so (0, 2, 3, 1) is NHWC
        over NCHW; empty if the layout is not such an order.

    Raises ArtifactError, on construction, for a field of the wrong type or out of bounds.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    layout: str = ""
    dim_order: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        fields.text(self.name, "name")
        shape = fields.sequence(self.shape, "shape")
        if len(shape) > fields.MAX_RANK:
            raise ArtifactError(f"shape: {len(shape)} dimensions are more than {fields.MAX_RANK}")
        for axis, size in enumerate(shape):
            if isinstance(size, str):
                fields.text(size, f"shape[{axis}]")
            else:
                fields.integer(size, f"shape[{axis}]", 0, fields.MAX_BYTES)
        fields.dtype(self.dtype, "dtype")
        fields.text(self.layout, "layout", empty=True)
        order = fields.sequence(self.dim_order, "dim_order")
        for position, axis in enumerate(order):
            fields.integer(axis, f"dim_order[{position}]", 0, fields.MAX_RANK)
        # A blocked layout has more dimensions in memory than it orders.
        if len(order) > len(shape) or sorted(order) != list(range(len(order))):
            raise ArtifactError(f"dim_order: does not order the dimensions of shape {_shape_text(shape)}")
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dim_order", tuple(order))

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can carry and :meth:`from_json` takes."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "layout": self.layout,
            "dim_order": list(self.dim_order),
        }

    @classmethod
    def from_json(cls, data: object, where: str = "tensor") -> "TensorSpec":
        """The inverse of :meth:`to_json`.

        Raises ArtifactError for anything else, in a message that begins with ``where``.
        """
        found = fields.record(data, where, ("name", "shape", "dtype", "layout", "dim_order"))
        try:
            return cls(**found)
        except ArtifactError as error:
            raise ArtifactError(f"{where}.{error}") from None

    def check(self, array: object, *, role: str = "input") -> None:
        """Raises InputError unless ``array`` is a numpy array of this dtype, rank and shape.

        A named dimension takes any size. ``role`` is how the message calls the tensor. Neither strides nor
        byte order matter here; see :func:`check_inputs`.
        """
        expected = f"{role} {self.name!r}: expected {self.dtype} {_shape_text(self.shape)}"
        if not isinstance(array, np.ndarray):
            raise InputError(f"{expected}, got {type(array).__name__}; convert with numpy.asarray")
        fits = self._fits(array.shape)
        if fits and array.dtype.name == self.dtype:
            return
        got = f"{array.dtype.name} {_shape_text(array.shape)}"
        raise InputError(f"{expected}, got {got}{self._remedy(array, fits)}")

    def _fits(self, shape: Sequence[int]) -> bool:
        if len(shape) != len(self.shape):
            return False
        pairs = zip(self.shape, shape, strict=True)
        return all(isinstance(want, str) or want == have for want, have in pairs)

    def _remedy(self, array: Array, fits: bool) -> str:
        steps = ""
        if not fits:
            rank = array.ndim
            to_channels_first = (0, rank - 1, *range(1, rank - 1))
            to_channels_last = (0, *range(2, rank), 1)
            orders = (to_channels_first, to_channels_last) if rank > 2 else ()
            found = {order for order in orders if self._fits([array.shape[axis] for axis in order])}
            if len(found) != 1:
                return ""
            steps = f".transpose{found.pop()}"
        if array.dtype.name != self.dtype:
            # Text, dates, objects and complex numbers are mistakes that a cast would only hide.
            if array.dtype.kind not in "biuf":
                return ""
            steps += f".astype({self.dtype!r})"
        return f"; convert with {steps}"


def check_inputs(specs: Sequence[TensorSpec], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays in the order of ``specs``, each C-contiguous and in this machine's byte order.

    Copies only where that takes a copy. Raises InputError for a missing or unexpected name, for an array
    that its spec does not take, and for a named dimension that has two sizes.
    """
    expected = ", ".join(f"{spec.name!r} ({spec.dtype} {_shape_text(spec.shape)})" for spec in specs)
    names = {spec.name for spec in specs}
    missing = [repr(spec.name) for spec in specs if spec.name not in arrays]
    unexpected = [repr(name) for name in arrays if name not in names]
    if missing or unexpected:
        found = [f"missing {_inputs(missing)}"] if missing else []
        found += [f"unexpected {_inputs(unexpected)}"] if unexpected else []
        raise InputError(f"{' and '.join(found)}; the model takes {expected or 'no inputs'}")
    sizes: dict[str, tuple[int, str]] = {}
    result: dict[str, Array] = {}
    for spec in specs:
        array = arrays[spec.name]
        spec.check(array)
        for axis, (want, have) in enumerate(zip(spec.shape, array.shape, strict=True)):
            if not isinstance(want, str):
                continue
            size, owner = sizes.setdefault(want, (have, spec.name))
            if size != have:
                raise InputError(
                    f"input {spec.name!r}: dimension {axis} ({want!r}) is {have}, "
                    f"but input {owner!r} has {want} = {size}"
                )
        # ascontiguousarray would turn a 0-d array into a 1-d one.
        result[spec.name] = np.asarray(array, dtype=spec.dtype, order="C")
    return result


def _shape_text(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _inputs(names: Sequence[str]) -> str:
    return f"input{'s' if len(names) > 1 else ''} {', '.join(names)}"


__all__ = ["TensorSpec", "check_inputs"]
