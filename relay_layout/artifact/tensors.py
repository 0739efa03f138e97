"""What goes into and comes out of a compiled model, and whether given arrays are that."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from relay_layout.artifact import fields
from relay_layout.artifact.conditions import BROADCASTING, Condition
from relay_layout.artifact.memory_order import follows, how_to_order, show_memory, show_order
from relay_layout.artifact.quantization import Quantization
from relay_layout.errors import ArtifactError, InputError

Array = np.ndarray[Any, np.dtype[Any]]

_FIELDS = ("name", "shape", "dtype", "layout", "dim_order", "declared", "quantization", "bounds")


@dataclass(frozen=True)
class TensorSpec:
    """One input or output of a compiled model.

    name: as in the model.
    shape: an int per fixed dimension, a name per dimension that is only known at run time.
    dtype: numpy's name, such as ``float32``.
    layout: the order in memory, such as ``NCHW`` or ``NCHW16c``; empty if it has none.
    dim_order: for each position in memory the dimension of ``shape`` there, so (0, 2, 3, 1) is NHWC for a
        shape in NCHW; empty if the layout is not such an order.
    declared: whether the model or its user fixed ``dim_order``, so that an array which lies otherwise is a
        mistake; where nobody did, it is the compiler's affair and such an array is copied.
    quantization: what the integers stand for; None where the tensor is not quantized.
    bounds: the least and the largest size of named dimensions that take not every size, by name; None for
        the largest where there is none.

    Raises ArtifactError, on construction, for a field of the wrong type or out of bounds.
    """

    name: str
    shape: tuple[int | str, ...]
    dtype: str
    layout: str = ""
    dim_order: tuple[int, ...] = ()
    declared: bool = False
    quantization: Quantization | None = None
    bounds: dict[str, tuple[int, int | None]] = field(default_factory=dict)

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
        fields.boolean(self.declared, "declared")
        if self.declared and len(order) != len(shape):
            raise ArtifactError(f"declared: there is no dim_order of shape {_shape_text(shape)}")
        if self.quantization is not None:
            fields.instance(self.quantization, "quantization", Quantization)
            try:
                self.quantization.check_shape(shape)
            except ArtifactError as error:
                raise ArtifactError(f"quantization.{error}") from None
        object.__setattr__(self, "bounds", _checked_bounds(self.bounds, shape))
        object.__setattr__(self, "shape", tuple(shape))
        object.__setattr__(self, "dim_order", tuple(order))

    @property
    def memory_order(self) -> tuple[int, ...]:
        """The dimensions of an array from outermost to innermost in memory."""
        # What a blocked layout orders is not the dimensions of the array that holds it.
        complete = len(self.dim_order) == len(self.shape)
        return self.dim_order if complete else tuple(range(len(self.shape)))

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can carry and :meth:`from_json` takes."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "layout": self.layout,
            "dim_order": list(self.dim_order),
            "declared": self.declared,
            "quantization": None if self.quantization is None else self.quantization.to_json(),
            "bounds": {name: list(pair) for name, pair in self.bounds.items()},
        }

    @classmethod
    def from_json(cls, data: object, where: str = "tensor") -> "TensorSpec":
        """The inverse of :meth:`to_json`.

        Raises ArtifactError for anything else, in a message that begins with ``where``.
        """
        found = dict(fields.record(data, where, _FIELDS))
        found["quantization"] = Quantization.from_json(found["quantization"], f"{where}.quantization")
        return fields.made(cls, found, where)

    def check(self, array: object, *, role: str = "input", is_torch: bool = False) -> None:
        """Raises InputError unless ``array`` is a numpy array of this dtype, rank and shape.

        A named dimension takes any size within its bounds. ``role`` is how the message calls the tensor, and
        ``is_torch`` whether the caller has a tensor of PyTorch's, to which its words are to fit.
        Strides and byte order do not matter here; see :func:`check_inputs`.
        """
        if not isinstance(array, np.ndarray):
            raise InputError(
                f"{self._expected(role)}, got {type(array).__name__}; "
                f"convert with numpy.asarray(x, {self.dtype!r})"
            )
        # Masked arrays are looked for where there may be one: numpy imports them when they are first named.
        masked = 0
        if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
            masked = int(np.count_nonzero(array.mask))
        if masked:
            raise InputError(
                f"{self._expected(role)}, got an array with {masked} masked elements; fill them: x.filled(0)"
            )
        fits = self._fits(array.shape)
        if fits and array.dtype.name == self.dtype:
            self._check_bounds(array.shape, role)
            return
        got = f"{array.dtype.name} {_shape_text(array.shape)}"
        raise InputError(f"{self._expected(role)}, got {got}{self._remedy(array, fits, is_torch)}")

    def _expected(self, role: str) -> str:
        return f"{role} {self.name!r}: expected {self.dtype} {_shape_text(self.shape)}"

    def _check_bounds(self, shape: Sequence[int], role: str) -> None:
        if not self.bounds:
            return
        for axis, (name, size) in enumerate(zip(self.shape, shape, strict=True)):
            least, most = self.bounds.get(str(name), (0, None))
            if size < least or (most is not None and size > most):
                bounds = f"from {least} on" if most is None else f"{least} to {most}"
                raise InputError(
                    f"{role} {self.name!r}: dimension {axis} ({name!r}) is {size}, "
                    f"the model was exported for sizes {bounds}"
                )

    def _fits(self, shape: Sequence[int]) -> bool:
        if len(shape) != len(self.shape):
            return False
        pairs = zip(self.shape, shape, strict=True)
        return all(isinstance(want, str) or want == have for want, have in pairs)

    def _remedy(self, array: Array, fits: bool, is_torch: bool) -> str:
        steps, shape = "", array.shape
        # An image alone is a batch of one.
        if len(shape) + 1 == len(self.shape) > 2:
            steps, shape = "[None]", (1, *shape)
            fits = self._fits(shape)
        if not fits:
            rank = len(shape)
            to_channels_first = (0, rank - 1, *range(1, rank - 1))
            to_channels_last = (0, *range(2, rank), 1)
            orders = (to_channels_first, to_channels_last) if rank > 2 else ()
            found = {order for order in orders if self._fits([shape[axis] for axis in order])}
            if len(found) != 1:
                return ""
            steps += f".{'permute' if is_torch else 'transpose'}{found.pop()}"
        if array.dtype.name != self.dtype:
            # Text, dates, objects and complex numbers are mistakes that a cast would only hide.
            if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
                return ""
            steps += f".to(torch.{self.dtype})" if is_torch else f".astype({self.dtype!r})"
        return f"; convert with {steps}"


def _checked_bounds(bounds: object, shape: Sequence[int | str]) -> dict[str, tuple[int, int | None]]:
    found: dict[str, tuple[int, int | None]] = {}
    for name, pair in fields.mapping(bounds, "bounds").items():
        if name not in shape:
            raise ArtifactError(f"bounds: shape {_shape_text(shape)} has no dimension {name!r}")
        values = fields.sequence(pair, f"bounds.{name}")
        if len(values) != 2:
            raise ArtifactError(f"bounds.{name}: expected two sizes, got {len(values)}")
        least, most = fields.integer(values[0], f"bounds.{name}[0]", 0, fields.MAX_BYTES), values[1]
        if most is not None:
            fields.integer(most, f"bounds.{name}[1]", least, fields.MAX_BYTES)
        found[name] = (least, most)
    return found


def check_inputs(
    specs: Sequence[TensorSpec],
    arrays: Mapping[str, Array],
    conditions: Sequence[Condition] = (),
    *,
    permute: bool | None = None,
    of_torch: Container[str] = (),
) -> dict[str, Array]:
    """The arrays as their specs have them in memory: C-contiguous, dimensions in the order of ``dim_order``.

    By name, in the order of ``specs``, and in this machine's byte order. An array that lies so already is
    given back as it is, or as a view of its memory; one with gaps, as a slice has them, is copied. One in
    another order is copied where ``permute`` says so, is refused where ``permute`` is False, and for None is
    refused just where its order is ``declared``. Of ``of_torch`` the caller has tensors of PyTorch's.

    Raises InputError for a missing or unexpected name, for an array that its spec does not take, for one in
    another order, for a named dimension that has two sizes, and for sizes that do not meet ``conditions``.
    """
    _check_names(specs, arrays)
    sizes: dict[str, tuple[int, str]] = {}
    result: dict[str, Array] = {}
    for spec in specs:
        array = arrays[spec.name]
        spec.check(array, is_torch=spec.name in of_torch)
        for axis, (want, have) in enumerate(zip(spec.shape, array.shape, strict=True)):
            if not isinstance(want, str):
                continue
            size, owner = sizes.setdefault(want, (have, spec.name))
            if size != have:
                raise InputError(
                    f"input {spec.name!r}: dimension {axis} ({want!r}) is {have}, "
                    f"but input {owner!r} has {want} = {size}"
                    f"{BROADCASTING if 1 in (size, have) else ''}"
                )
        if not follows(array.shape, array.strides, spec.memory_order, array.itemsize):
            refused = spec.declared if permute is None else not permute
            if refused:
                raise InputError(_wrong_order(spec, array))
        plain = spec.memory_order == tuple(range(array.ndim))
        physical = array if plain else array.transpose(spec.memory_order)
        # ascontiguousarray would turn a 0-d array into a 1-d one.
        result[spec.name] = np.asarray(physical, dtype=spec.dtype, order="C")
    shapes = {name: array.shape for name, array in arrays.items()} if conditions else {}
    for condition in conditions:
        condition.check(shapes)
    return result


def _check_names(specs: Sequence[TensorSpec], arrays: Mapping[str, Array]) -> None:
    names = {spec.name for spec in specs}
    if arrays.keys() == names:
        return
    expected = ", ".join(f"{spec.name!r} ({spec.dtype} {_shape_text(spec.shape)})" for spec in specs)
    missing = [repr(spec.name) for spec in specs if spec.name not in arrays]
    unexpected = [repr(name) for name in arrays if name not in names]
    found = [f"missing {_inputs(missing)}"] if missing else []
    found += [f"unexpected {_inputs(unexpected)}"] if unexpected else []
    raise InputError(f"{' and '.join(found)}; the model takes {expected or 'no inputs'}")


def _wrong_order(spec: TensorSpec, array: Array) -> str:
    order = spec.memory_order
    return (
        f"input {spec.name!r}: lies in memory {show_memory(array)}, expected dim_order {show_order(order)}; "
        f"convert with {how_to_order(order)}, or let it be copied with permute=True"
    )


def _shape_text(shape: Sequence[int | str]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _inputs(names: Sequence[str]) -> str:
    return f"input{'s' if len(names) > 1 else ''} {', '.join(names)}"
