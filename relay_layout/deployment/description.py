"""``network.txt``: what the C++ header needs to know of a network, a line for each thing, read once."""

from collections.abc import Iterator, Mapping, Sequence

from relay_layout.artifact import Condition, Manifest, TensorSpec
from relay_layout.artifact.manifest import Build, WeightEntry
from relay_layout.artifact.target import architecture_of
from relay_layout.environment.host import x86_words
from relay_layout.long_expressions import cut
from topi_ext.machine.arm_features import capability

VERSION = 3
"""The version of the format of the lines, which the header has as well."""

_LARGEST = 2**63 - 1


def describe(
    manifest: Manifest, build: Build, weights: Sequence[WeightEntry], files: Mapping[str, tuple[str, int]]
) -> str:
    """The lines for one build and its ``weights``; ``files`` are name and bytes of "library" and "weights".

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
    lines += [_words("file", kind, name, size) for kind, (name, size) in files.items()]
    return sealed("\n".join(lines) + "\n")


def sealed(text: str) -> str:
    """The text and, as its last line, the sum of its bytes: FNV-1a of 64 bits."""
    total = 0xCBF29CE484222325
    for byte in text.encode():
        total = (total ^ byte) * 0x100000001B3 % 2**64
    return f"{text}{_words('sum', f'{total:016x}')}\n"


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
