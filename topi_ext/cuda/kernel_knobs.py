"""What knobs of all kinds of GPU kernels share: how they are written down, read, and refused."""

from collections.abc import Mapping
from dataclasses import fields as fields_of
from typing import Any, ClassVar, TypeVar

from topi_ext.cuda.workload import NhwcConvolution
from topi_ext.errors import CudaError

_Knobs = TypeVar("_Knobs", bound="KernelKnobs")


class KernelKnobs:
    """Base of frozen dataclasses of numbers and names; ``ALGORITHM`` is what each is written down under, and
    ``KERNEL`` how messages call what it is for.
    """

    ALGORITHM: ClassVar[str]
    KERNEL: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """The knobs by name, and the algorithm that they are of."""
        return {"algorithm": self.ALGORITHM, **vars(self)}

    @classmethod
    def from_dict(cls: type[_Knobs], fields: Mapping[str, Any]) -> _Knobs:
        """What :meth:`to_dict` wrote; CudaError for anything else."""
        named = {name: value for name, value in fields.items() if name != "algorithm"}
        kinds = {field.name: field.type for field in fields_of(cls)}  # type: ignore[arg-type]
        # Names are checked with what they name; numbers are exact, where True would pass for 1.
        exact = {name: kind for name, kind in kinds.items() if kind in (int, bool)}
        is_known = fields.get("algorithm") == cls.ALGORITHM and named.keys() <= kinds.keys()
        if is_known and all(type(value) is exact.get(name, type(value)) for name, value in named.items()):
            try:
                return cls(**named)
            except TypeError:
                pass  # One is missing.
        raise CudaError(f"{dict(fields)} are no knobs of {cls.KERNEL}")


def refuse(workload: NhwcConvolution, knobs: KernelKnobs, problem: str | None) -> None:
    """Raise CudaError where there is a problem of knobs with a workload."""
    if problem:
        raise CudaError(f"knobs {knobs.to_dict()} do not fit {workload.to_json()}: {problem}")
