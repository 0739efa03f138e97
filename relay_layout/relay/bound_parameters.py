"""Parameters that ``relay.build`` made part of a network, known again by their digests.

Scripts give them once more where they run a network, in another process and on boards too. The manifest holds
what tells whether these are the same: the weights themselves are stored as kernels read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, TypedDict

import numpy as np

from relay_layout.artifact import Manifest
from relay_layout.typed_json import check

_FIELD = "parameters"
"""The field of a build's report."""


class _Noted(TypedDict):
    dtype: str
    shape: list[int]
    sha256: str


class _Report(TypedDict):
    parameters: dict[str, _Noted]


@dataclass(frozen=True)
class BoundParameter:
    """One that is part of a network: its numpy dtype, its shape, and the SHA-256 of its elements in order."""

    dtype: str
    shape: tuple[int, ...]
    sha256: str

    @classmethod
    def of(cls, array: np.ndarray) -> BoundParameter:
        """What is kept of an array."""
        return cls(str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest())

    def matches(self, array: np.ndarray) -> bool:
        """Whether an array, of this dtype after a conversion, has the same numbers."""
        if array.shape != self.shape:
            return False
        # numpy knows bfloat16 by its name only where the package of that type was imported.
        same = array if str(array.dtype) == self.dtype else array.astype(self.dtype)
        return BoundParameter.of(same) == self


def with_parameters(manifest: Manifest, bound: Mapping[str, np.ndarray]) -> Manifest:
    """A manifest that says which parameters became part of the network."""
    if not bound:
        return manifest
    noted = {name: asdict(BoundParameter.of(array)) for name, array in bound.items()}
    noted = {name: {**entry, "shape": list(entry["shape"])} for name, entry in noted.items()}
    builds = tuple(replace(build, report={**build.report, _FIELD: noted}) for build in manifest.builds)
    return replace(manifest, builds=builds)


def parameters_of(manifest: Manifest) -> dict[str, BoundParameter]:
    """The parameters that became part of a network, by name; none where its manifest does not say.

    InputError where the manifest says it in another form.
    """
    report: dict[str, Any] = manifest.builds[0].report
    if _FIELD not in report:
        return {}
    noted = {_FIELD: report[_FIELD]}
    check(noted, _Report, "report")
    return {
        name: BoundParameter(entry["dtype"], tuple(entry["shape"]), entry["sha256"])
        for name, entry in noted[_FIELD].items()
    }
