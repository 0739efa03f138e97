"""What the integers of a quantized tensor stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from relay_layout.artifact import fields
from relay_layout.errors import ArtifactError

MAX_CHANNELS = 1 << 20


@dataclass(frozen=True)
class Quantization:
    """``real = scale * (integer - zero_point)``, with one pair for the tensor or one for each channel.

    scales: positive. zero_points: as many as scales.
    axis: the dimension of the tensor's shape that the pairs go along; None for one pair.

    Raises ArtifactError, on construction, for a field of the wrong type or out of bounds.
    """

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        scales = fields.sequence(self.scales, "scales")
        points = fields.sequence(self.zero_points, "zero_points")
        if not 1 <= len(scales) <= MAX_CHANNELS:
            raise ArtifactError(f"scales: {len(scales)} of them are not within 1 and {MAX_CHANNELS}")
        if len(points) != len(scales):
            raise ArtifactError(f"zero_points: {len(points)} for {len(scales)} scales")
        for place, scale in enumerate(scales):
            fields.number(scale, f"scales[{place}]")
            if scale <= 0:
                raise ArtifactError(f"scales[{place}]: must be above 0")
        for place, point in enumerate(points):
            fields.integer(point, f"zero_points[{place}]", -(2**31), 2**31 - 1)
        if self.axis is not None:
            fields.integer(self.axis, "axis", 0, fields.MAX_RANK)
        elif len(scales) > 1:
            raise ArtifactError(f"axis: {len(scales)} scales need one")
        object.__setattr__(self, "scales", tuple(float(scale) for scale in scales))
        object.__setattr__(self, "zero_points", tuple(points))

    def check_shape(self, shape: Sequence[int | str]) -> None:
        """Raises ArtifactError unless the parameters fit a tensor of that shape."""
        if self.axis is None:
            return
        if self.axis >= len(shape):
            raise ArtifactError(f"axis: {self.axis} is not a dimension of a tensor of {len(shape)}")
        extent = shape[self.axis]
        if isinstance(extent, int) and extent != len(self.scales):
            raise ArtifactError(f"scales: {len(self.scales)} for {extent} channels")

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can carry and :meth:`from_json` takes."""
        return {"scales": list(self.scales), "zero_points": list(self.zero_points), "axis": self.axis}

    @classmethod
    def from_json(cls, data: object, where: str) -> "Quantization | None":
        """The inverse of :meth:`to_json`; None stands for None. ArtifactError for anything else."""
        if data is None:
            return None
        return fields.made(cls, fields.record(data, where, ("scales", "zero_points", "axis")), where)
