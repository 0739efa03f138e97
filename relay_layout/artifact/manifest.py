"""The manifest: what is in an artifact, in words that both people and the loader read."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

import numpy as np

from relay_layout.artifact import fields as check
from relay_layout.artifact.conditions import Condition
from relay_layout.artifact.target import check_target
from relay_layout.artifact.tensors import TensorSpec
from relay_layout.errors import ArtifactError

MAX_MANIFEST_BYTES = 64 << 20
MAX_THREADS = 1 << 16
WEIGHTS = "weights"
"""The name of the section that holds the weights of all builds."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Producer:
    """The versions of relay-layout and of TVM that built an artifact."""

    relay_layout: str
    tvm: str

    def __post_init__(self) -> None:
        check.text(self.relay_layout, "relay_layout")
        check.text(self.tvm, "tvm")


@dataclass(frozen=True)
class Section:
    """A part of the file: offset and size in bytes from its start, and the SHA-256 of the content in hex."""

    name: str
    offset: int
    size: int
    sha256: str

    def __post_init__(self) -> None:
        check.text(self.name, "name")
        check.integer(self.offset, "offset", 0, check.MAX_BYTES)
        check.integer(self.size, "size", 0, check.MAX_BYTES)
        if not _SHA256.fullmatch(check.text(self.sha256, "sha256")):
            raise ArtifactError("sha256: expected 64 digits of lower-case hex")


@dataclass(frozen=True)
class WeightEntry:
    """An array in the section of weights, little endian and in C order, as one build takes it.

    offset, nbytes: in bytes, the offset from the section's start.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    def __post_init__(self) -> None:
        check.text(self.name, "name")
        check.dtype(self.dtype, "dtype")
        shape = check.sequence(self.shape, "shape")
        if len(shape) > check.MAX_RANK:
            raise ArtifactError(f"shape: {len(shape)} dimensions are more than {check.MAX_RANK}")
        for axis, size in enumerate(shape):
            check.integer(size, f"shape[{axis}]", 0, check.MAX_BYTES)
        check.integer(self.offset, "offset", 0, check.MAX_BYTES)
        check.integer(self.nbytes, "nbytes", 0, check.MAX_BYTES)
        item = np.dtype(self.dtype).itemsize
        # numpy multiplies the dimensions of an empty array too, leaving out the zeros.
        if math.prod(size or 1 for size in shape) * item > check.MAX_BYTES:
            raise ArtifactError(f"shape: {shape} is too large")
        if math.prod(shape) * item != self.nbytes:
            raise ArtifactError(f"nbytes: {self.nbytes} does not match {self.dtype} {shape}")
        object.__setattr__(self, "shape", tuple(shape))


@dataclass(frozen=True)
class Build:
    """What an artifact holds for one target: a library, the weights its kernels take, and how it came about.

    name: the target as it was asked for, such as ``x86-64-v3``.
    target: what it was built for; see :func:`relay_layout.artifact.target.check_target`.
    num_threads_hint: threads it was tuned for, if any number in particular.
    report: the compile report, any JSON object.
    times: seconds that compiling took, where they are in the report; they are not written, so that a model is
        compiled to the same bytes again.
    weights: in the order that the library takes them; filled in by
        :func:`relay_layout.artifact.write_artifact`. Entries, of different builds too, may be the same bytes.
    """

    name: str
    target: dict[str, Any]
    num_threads_hint: int | None = None
    report: dict[str, Any] = field(default_factory=dict, repr=False)
    weights: tuple[WeightEntry, ...] = field(default=(), repr=False)
    times: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        check.text(self.name, "name")
        object.__setattr__(self, "target", check_target(self.target))
        if self.num_threads_hint is not None:
            check.integer(self.num_threads_hint, "num_threads_hint", 1, MAX_THREADS)
        report = check.mapping(self.report, "report")
        try:
            check.check_json(report)
        except ArtifactError as error:
            raise ArtifactError(f"report: {error}") from None
        object.__setattr__(self, "weights", _table(self.weights, "weights", WeightEntry))

    @property
    def section(self) -> str:
        """The name of the section that holds its library."""
        return f"library {self.name}"


@dataclass(frozen=True)
class Manifest:
    """All an artifact says about itself.

    producer: the versions that built it.
    inputs, outputs: in the order of the model's entry function, alike for all builds.
    builds: one for each target, at least one; where a machine runs several, it takes the last.
    conditions: what the sizes of inputs have to be; see :class:`relay_layout.artifact.conditions.Condition`.
    sections: filled in by :func:`relay_layout.artifact.write_artifact`.

    Raises ArtifactError, on construction, for a field of the wrong type or out of bounds.
    """

    producer: Producer
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    builds: tuple[Build, ...]
    conditions: tuple[Condition, ...] = ()
    sections: tuple[Section, ...] = ()

    def __post_init__(self) -> None:
        check.instance(self.producer, "producer", Producer)
        for where, kind in _TABLES.items():
            object.__setattr__(self, where, _table(getattr(self, where), where, kind))
        if not self.builds:
            raise ArtifactError("builds: must not be empty")
        for index, condition in enumerate(check.sequence(self.conditions, "conditions")):
            check.instance(condition, f"conditions[{index}]", Condition)
        object.__setattr__(self, "conditions", tuple(self.conditions))

    @property
    def section_names(self) -> tuple[str, ...]:
        """The sections that the file must have, in their order."""
        return (*(build.section for build in self.builds), WEIGHTS)

    @property
    def report(self) -> dict[str, Any]:
        """What is reported of the compilation: the fields of the build's report, its target and threads.

        For several targets these are a list ``targets``, with a ``name`` in each. Where this process compiled
        the model, times are among the fields; of several targets there is the sum of ``compile_seconds``.
        """
        builds = self.builds
        reports = [
            {**joined(build.report, build.times), "target": build.target, "threads": build.num_threads_hint}
            for build in builds
        ]
        if len(builds) == 1:
            return reports[0]
        named = zip(builds, reports, strict=True)
        seconds = [build.times["compile_seconds"] for build in builds if build.times]
        total = {"compile_seconds": round(sum(seconds), 3)} if seconds else {}
        return {"targets": [{"name": build.name, **report} for build, report in named], **total}

    def to_json(self) -> dict[str, Any]:
        """A dict that JSON can carry and :meth:`from_json` takes."""
        return {
            "producer": _plain(self.producer),
            "inputs": [spec.to_json() for spec in self.inputs],
            "outputs": [spec.to_json() for spec in self.outputs],
            "builds": [
                _plain(build)
                | {"weights": [_plain(entry) | {"shape": list(entry.shape)} for entry in build.weights]}
                for build in self.builds
            ],
            "conditions": [condition.text for condition in self.conditions],
            "sections": [_plain(section) for section in self.sections],
        }

    @classmethod
    def from_json(cls, data: object) -> "Manifest":
        """The inverse of :meth:`to_json`. Raises ArtifactError, naming the field, for anything else."""
        found = dict(check.record(data, "manifest", [item.name for item in fields(cls)]))
        found["producer"] = _build(Producer, found["producer"], "producer")
        for where in ("inputs", "outputs"):
            items = enumerate(check.sequence(found[where], where))
            found[where] = tuple(TensorSpec.from_json(item, f"{where}[{index}]") for index, item in items)
        builds = []
        for index, item in enumerate(check.sequence(found["builds"], "builds")):
            where = f"builds[{index}]"
            build = dict(check.record(item, where, [entry.name for entry in _written(Build)]))
            build["weights"] = _build_all(WeightEntry, build["weights"], f"{where}.weights")
            builds.append(_build(Build, build, where))
        found["builds"] = tuple(builds)
        ranks = {spec.name: len(spec.shape) for spec in found["inputs"]}
        conditions = []
        for index, text in enumerate(check.sequence(found["conditions"], "conditions")):
            where = f"conditions[{index}]"
            try:
                conditions.append(Condition(check.text(text, where), ranks))
            except ArtifactError as error:
                raise ArtifactError(f"{where}: {error}") from None
        found["conditions"] = tuple(conditions)
        found["sections"] = _build_all(Section, found["sections"], "sections")
        return cls(**found)

    def encode(self) -> bytes:
        """The manifest as UTF-8 JSON. Raises ArtifactError if it is larger than 64 MiB."""
        encoded = json.dumps(self.to_json(), allow_nan=False, separators=(",", ":")).encode("utf-8")
        if len(encoded) > MAX_MANIFEST_BYTES:
            raise ArtifactError(f"the manifest takes {len(encoded)} bytes, more than {MAX_MANIFEST_BYTES}")
        return encoded

    @classmethod
    def decode(cls, encoded: bytes) -> "Manifest":
        """The inverse of :meth:`encode`. Raises ArtifactError for anything else."""
        return cls.from_json(check.parse_json(encoded))


_TABLES: dict[str, type[TensorSpec | Build | Section]] = {
    "inputs": TensorSpec,
    "outputs": TensorSpec,
    "builds": Build,
    "sections": Section,
}


def _table(
    value: object, where: str, kind: type[TensorSpec | Build | Section | WeightEntry]
) -> tuple[Any, ...]:
    items = check.sequence(value, where)
    for index, item in enumerate(items):
        check.instance(item, f"{where}[{index}]", kind)
    check.unique((item.name for item in items), where)
    return tuple(items)


def _plain(item: Producer | Build | Section | WeightEntry) -> dict[str, Any]:
    return {entry.name: getattr(item, entry.name) for entry in _written(item)}


def _written(kind: Any) -> list[Field[Any]]:
    """The fields that are in the file: all that are compared."""
    return [entry for entry in fields(kind) if entry.compare]


def joined(report: Mapping[str, Any], times: Mapping[str, Any]) -> dict[str, Any]:
    """A report with times among its fields."""
    inner = {
        name: joined(report.get(name, {}), each) for name, each in times.items() if isinstance(each, dict)
    }
    return {**report, **times, **inner}


def _build(kind: type[Any], data: object, where: str) -> Any:
    found = check.record(data, where, [item.name for item in _written(kind)])
    return check.made(kind, found, where)


def _build_all(kind: type[Any], data: object, where: str) -> tuple[Any, ...]:
    items = enumerate(check.sequence(data, where))
    return tuple(_build(kind, item, f"{where}[{index}]") for index, item in items)
