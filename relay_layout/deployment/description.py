"""``network.txt``: what the C++ header needs to know of a network, a line for each thing, read once."""

from collections.abc import Iterator, Mapping, Sequence

from relay_layout.artifact import Condition, Manifest, TensorSpec
from relay_layout.artifact.manifest import Build, WeightEntry
from relay_layout.artifact.target import architecture_of
from relay_layout.host import x86_words
from relay_layout.long_expressions import cut
from topi_ext.arm_features import capability

VERSION = 2
"""Of the lines, which the header has as well."""

_LARGEST = 2**63 - 1


def describe(
    manifest: Manifest, build: Build, weights: Sequence[WeightEntry], sizes: Mapping[str, int]
) -> str:
    """The lines for one build and its ``weights``; ``sizes`` are the bytes of the files beside, by name.

    Shapes and axes are those that tensors have in memory. Names and texts are in quotes, with backslashes
    before quotes and backslashes inside; everything else is a word without spaces.
    """
    machine = architecture_of(build.target)
    lines = [f"relay-layout-network {VERSION}", f"machine {_quoted(build.name)} {machine}"]
    lines += [line for name in build.target.get("features", ()) for line in _feature(name, machine)]
    lines += [_tensor("input", spec) for spec in manifest.inputs]
    lines += [_tensor("output", spec) for spec in manifest.outputs]
    lines += [_condition(condition, manifest.inputs) for condition in manifest.conditions]
    lines += [
        _words("weight", entry.dtype, entry.offset, len(entry.shape), *entry.shape) for entry in weights
    ]
    # Last, so that one that ends early lacks it.
    lines += [_words("bytes", len(sizes), *(word for pair in sizes.items() for word in pair))]
    return "\n".join(lines) + "\n"


def _feature(name: str, machine: str) -> Iterator[str]:
    """How the kernel tells a program of a CPU feature: flags in a file, or a bit in a word of the process."""
    if machine != "aarch64":
        yield _words("flags", name, *x86_words(name))
    elif (place := capability(name)) is not None:
        yield _words("capability", name, *place)


def _tensor(kind: str, spec: TensorSpec) -> str:
    words: list[object] = [kind, _quoted(spec.name), spec.dtype, _quoted(spec.layout), len(spec.shape)]
    for axis in spec.memory_order:
        extent = spec.shape[axis]
        if isinstance(extent, int):
            words += [_quoted(""), extent, extent]
        else:
            least, most = spec.bounds.get(extent, (0, None))
            words += [_quoted(extent), least, _LARGEST if most is None else most]
    stands_for = spec.quantization
    pairs = list(zip(stands_for.scales, stands_for.zero_points, strict=True)) if stands_for else []
    words.append(len(pairs))
    words += [number for pair in pairs for number in pair]
    return _words(*words)


def _condition(condition: Condition, inputs: Sequence[TensorSpec]) -> str:
    return _words("condition", _quoted(cut(condition.text)), *_steps(condition, inputs))


def _steps(condition: Condition, inputs: Sequence[TensorSpec]) -> Iterator[object]:
    places = {spec.name: place for place, spec in enumerate(inputs)}
    for step in condition.steps:
        if isinstance(step, tuple):
            name, axis = step
            place = places[name]
            yield from ("size", place, inputs[place].memory_order.index(axis))
        elif isinstance(step, str):
            yield step
        else:
            yield from ("number", step)


def _words(*words: object) -> str:
    return " ".join(map(str, words))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    # Lines end where a name would not.
    return f'"{" ".join(escaped.split())}"' if escaped else '""'
