"""Resolution of target names, TVM's JSON and TVM targets to :class:`.target.BuildTarget`."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, cast

import tvm
from tvm.target import codegen

from relay_layout.environment.host import (
    architecture,
    check_threads,
    cpu_count,
    cpu_features,
    cpu_model,
    normalize_architecture,
)
from relay_layout.errors import TargetError
from relay_layout.targets.arm import (
    ARM_BOARDS,
    PREFIX,
    arm_facts,
    arm_features,
    arm_target,
    present_attributes,
    with_tuning,
)
from relay_layout.targets.cpu import CpuTarget
from relay_layout.targets.cuda import PREFIX as CUDA_PREFIX
from relay_layout.targets.cuda import cuda_target
from relay_layout.targets.facts import X86_AVX2, X86_AVX512, X86_SSE
from relay_layout.targets.records import recorded_kernels
from relay_layout.targets.target import STORED, BuildTarget, Precision
from relay_layout.targets.target_strings import READ, description_of, is_target_string
from relay_layout.targets.x86 import (
    AMX_BFLOAT16,
    AMX_BYTES,
    INSTRUCTION_SETS,
    LLVM_NAMES,
    level_features,
    with_full_vectors,
    x86_features,
)
from topi_ext.chooser import KernelChooser
from topi_ext.machine.processor import processor_of
from topi_ext.messages import json_reason, last_line
from topi_ext.tune.records.transforms import TransformTimes

TargetLike: TypeAlias = "str | Mapping[str, Any] | tvm.target.Target | BuildTarget"
"""What :func:`resolve_target` takes."""

_KEYS = {
    *("kind", "keys", "tag", "libs", "device", "model", "host", "opt-level", "cl-opt", "jit", *READ),
    *("fast-math", "mabi", "mfloat-abi", "vector-width", "system-lib", "runtime", "from_device"),
}
_FEATURES = ("feature.", "fast-math-")
"""All attributes that such a target may have, and how others begin."""


def resolve_target(
    target: TargetLike = "native",
    *,
    threads: int | None = None,
    tuning_records: Sequence[str | os.PathLike[str]] = (),
    shipped_records: bool = True,
    winograd: bool = True,
    precision: str = "fp32",
) -> BuildTarget:
    """The target for ``native``, an x86-64 level, an ARM core such as ``aarch64-cortex-a76+i8mm``,
    ``cuda-sm_90`` (``+nowgmma`` without wgmma, ``+notma`` without bulk copies), a name that LLVM knows,
    TVM's JSON, or a TVM target.

    ``threads`` is how many threads the kernels are shaped for; by default all cores of this machine, or of a
    board with such an ARM core. ``tuning_records`` are logs to choose kernels from beside those of the
    package, which ``shipped_records`` false leaves out; times of this model of CPU, for ``native``, or of
    the one that those logs are of, come before those of other models. ``winograd`` false keeps to kernels
    that round like the direct convolution. ``precision`` is what floats are multiplied in
    (:data:`relay_layout.targets.target.Precision`): "bf16" is for processors with AVX512_BF16, AMX
    or ARM's bf16, "fp16" and "tf32" are for CUDA. A target that is resolved stays as it is, and takes none
    of these options. Raises :class:`TargetError` with the names that are understood, InputError for a log
    that cannot be read.
    """
    if isinstance(target, BuildTarget):
        _check_unchanged(
            target,
            threads=threads in (None, target.threads),
            precision=precision in ("fp32", target.precision),
            winograd=winograd,
            tuning_records=not tuning_records,
            shipped_records=shipped_records,
        )
        return target
    check_threads(threads)
    if precision not in STORED:
        raise TargetError(f"precision {precision!r} is not known; use one of {', '.join(STORED)}")
    wanted = cast("Precision", precision)
    if isinstance(target, str):
        _check_spelling(target.strip())
    described = _described(target)
    if described is not None and described.kind == "cuda":
        found: BuildTarget = cuda_target(_gpu_named(described), wanted)
    elif isinstance(target, str) and target.strip().startswith("cuda"):
        found = cuda_target(target.strip(), wanted)
    elif described is not None:
        found = _in_precision(_from_description(described, threads), wanted)
    else:
        found = _in_precision(_named(cast("str", target).strip(), threads), wanted)
    here = cpu_model() if found.name == "native" else ""
    machine = found.machine
    records = recorded_kernels(machine.name, tuning_records, shipped_records, here, machine.threads)
    return replace(
        found,
        kernels=replace(found.kernels, records=records, winograd=winograd),
        transforms=TransformTimes(records.database.transforms(machine)),
    )


def _check_unchanged(target: BuildTarget, **unchanged: bool) -> None:
    """TargetError for options, by name, that would change a resolved target."""
    changed = [name for name, same in unchanged.items() if not same]
    if changed:
        raise TargetError(
            f"target {target.name} is resolved, so {', '.join(changed)} cannot change it; give these to "
            "resolve_target"
        )


def _in_precision(target: CpuTarget, precision: Precision) -> CpuTarget:
    if precision in ("fp16", "tf32"):
        raise TargetError(f"target {target.name}: precision {precision} is for CUDA; use bf16 or fp32")
    by_matrices = target.processor.amx_registers and AMX_BFLOAT16 in target.features
    if precision == "bf16" and not (by_matrices or target.processor.bfloat16_instructions):
        raise TargetError(
            f"target {target.name}: precision bf16 needs a processor that multiplies bfloat16 (AVX512_BF16, "
            "AMX, ARM's bf16), such as znver4, sapphirerapids or aarch64-neoverse-n2; use fp32"
        )
    return replace(target, precision=precision)


class _Described(NamedTuple):
    """A target by TVM's attributes: what to call it in messages, its kind, and the attributes."""

    name: str
    kind: str
    attributes: dict[str, Any]


def _described(target: TargetLike) -> _Described | None:
    """What TVM's JSON, a mapping or a TVM target describes; None for a name."""
    if isinstance(target, tvm.target.Target):
        kind = str(target.kind.name)
        return _Described(kind, kind, dict(target.attrs))
    if isinstance(target, Mapping):
        return _of_attributes(json.dumps(dict(target), default=repr), target)
    if not isinstance(target, str):
        raise TargetError(
            f"a {type(target).__name__} is no target; give a name such as 'native', or TVM's JSON"
        )
    text = target.strip()
    if not text.startswith("{"):
        return None
    try:
        attributes = json.loads(text)
    except json.JSONDecodeError as error:
        raise TargetError(f"target {text!r} is not valid JSON: {json_reason(error)}") from None
    except (ValueError, RecursionError):
        raise TargetError(f"target {text[:40]!r}...: not readable as JSON") from None
    return _of_attributes(text, attributes)


def _of_attributes(name: str, attributes: Mapping[str, Any]) -> _Described:
    kind = attributes.get("kind")
    if not isinstance(kind, str):
        raise TargetError(
            f'target {name}: its kind is not said; give "llvm" and a processor, such as '
            '{"kind": "llvm", "mcpu": "znver4"}, or use \'native\' for this machine'
        )
    return _Described(name, kind, dict(attributes))


def _gpu_named(target: _Described) -> str:
    """The name of a GPU by its ``arch``; limits of kernels, TVM's other attributes, follow from that."""
    arch = target.attributes.get("arch")
    if not arch:
        raise TargetError(f"target {target.name}: which GPU is not said; give its arch, such as sm_90")
    # sm_90a is an sm_90 of which kernels may take what its followers lack.
    return f"{CUDA_PREFIX}{str(arch).removesuffix('a')}"


def _named(text: str, threads: int | None) -> CpuTarget:
    if text == "native":
        return _native(threads)
    if text.startswith(PREFIX.rstrip("-")):
        return _from_description(_Described(text, "llvm", arm_target(text)), threads)
    if text in INSTRUCTION_SETS:
        return _build(text, {"mcpu": text}, level_features(text), "x86_64", threads)
    if architecture() == "x86_64" and text in _known_processors(codegen.llvm_get_system_triple()):
        return _build(text, {"mcpu": text}, x86_features({"mcpu": text}), "x86_64", threads)
    raise TargetError(
        f"target {text!r} is not known; use 'native', one of {', '.join(INSTRUCTION_SETS)}, "
        f"an ARM core such as {PREFIX}cortex-a76, cuda-sm_90, a processor name that LLVM knows, or "
        "TVM's target JSON"
    )


def _check_spelling(text: str) -> None:
    """Raises :class:`TargetError` for a list, and for a target string of TVM up to 0.18."""
    if is_target_string(text) and text != "cuda":
        fields = description_of(text)
        is_native = not set(fields) - {"kind", "num-cores"}
        wanted = "native" if is_native and fields["kind"] == "llvm" else json.dumps(fields)
        raise TargetError(f"target {text!r} is written as TVM up to 0.18 had it; today it is {wanted}")
    if "," in text and not text.startswith("{"):
        raise TargetError(
            f"target {text!r} names several, and one is needed; relay-layout compile alone takes a list, and "
            "relay_layout.compile one of Python's"
        )


def _known_processors(triple: str) -> set[str]:
    base = tvm.target.Target({"kind": "llvm", "mtriple": triple})
    return {str(name) for name in codegen.llvm_get_cpu_archlist(base)}


def _check_processor(name: str, triple: str, machine: str, cpu: str) -> None:
    """Raises :class:`TargetError` for a processor that LLVM would take for a generic one without a word."""
    if cpu and cpu not in _known_processors(triple) | {"generic"}:
        raise TargetError(f"target {name}: LLVM knows no processor '{cpu}' of {machine}")


def _check_features(name: str, triple: str, features: object) -> None:
    """Raises :class:`TargetError` for features that LLVM would leave out, telling standard error alone."""
    if features is None:
        return
    if isinstance(features, str) or not isinstance(features, Iterable):
        raise TargetError(f'target {name}: mattr is a list of features, such as ["+avx2", "+fma"]')
    for feature in map(str, features):
        bare = feature.lstrip("+-")
        probe = tvm.target.Target({"kind": "llvm", "mtriple": triple, "mattr": [f"+{bare}"]})
        if bare not in map(str, codegen.llvm_get_cpu_features(probe)):
            raise TargetError(
                f"target {name}: LLVM knows no feature '{feature}' of {triple.split('-')[0]}; "
                "it writes them as in +avx512vnni or +dotprod"
            )


def _native(threads: int | None) -> CpuTarget:
    cpu = codegen.llvm_get_system_cpu()
    present = cpu_features()
    attributes: dict[str, Any] = {"mcpu": cpu}
    features: tuple[str, ...] = ()
    # A virtual machine may hide extensions that the processor's name implies, and name an older processor.
    if present is not None and architecture() == "aarch64":
        attributes = present_attributes(cpu, _arm_features(attributes), present)
        features = _arm_features(attributes)
    elif present is not None:
        implied = x86_features(attributes)
        features = tuple(name for name in implied if name in present)
        changed = [f"-{LLVM_NAMES.get(name, name)}" for name in sorted(set(implied) - present)]
        if "avx512vnni" in features and present.issuperset(AMX_BYTES):
            more = [name for name in (*AMX_BYTES, AMX_BFLOAT16) if name in present - set(features)]
            changed += [f"+{LLVM_NAMES[name]}" for name in more]
            features = tuple(sorted({*features, *more}))
        if changed:
            attributes["mattr"] = changed
    return _build("native", attributes, features, architecture(), threads)


def _from_description(target: _Described, threads: int | None) -> CpuTarget:
    name, attributes = target.name, _cpu_attributes(target)
    cores = _cores(name, attributes.pop("num-cores")) if "num-cores" in attributes else None
    threads = threads or cores
    triple = str(attributes.get("mtriple", ""))
    machine = normalize_architecture(triple.split("-")[0]) if triple else architecture()
    cpu = str(attributes.get("mcpu", ""))
    if triple and not codegen.llvm_is_valid_cpu("generic", triple):
        raise TargetError(
            f"target {name}: LLVM knows no machine '{triple.split('-')[0]}'; give an mtriple such as "
            "x86_64-linux-gnu or aarch64-linux-gnu"
        )
    if machine in ("aarch64", "x86_64"):
        _check_processor(name, triple or codegen.llvm_get_system_triple(), machine, cpu)
    _check_features(name, triple or codegen.llvm_get_system_triple(), attributes.get("mattr"))
    features: tuple[str, ...] = ()
    if machine == "aarch64":
        features = _arm_features(attributes)
        if machine != architecture() and cpu in ARM_BOARDS:
            threads = threads or ARM_BOARDS[cpu].cores
    elif machine == "x86_64":
        features = x86_features(attributes)
    return _build(name, attributes, features, machine, threads)


def _cpu_attributes(target: _Described) -> dict[str, Any]:
    """Those attributes of a CPU that are read; TargetError for another kind, and for what is no attribute."""
    name, kind, description = target
    if kind != "llvm":
        raise TargetError(
            f"target {name}: kind '{kind}' has no kernels yet; use a CPU target (kind 'llvm'), or a GPU's "
            "(kind 'cuda')"
        )
    unknown = sorted(key for key in description if key not in _KEYS and not key.startswith(_FEATURES))
    if unknown:
        raise TargetError(
            f"target {name}: '{unknown[0]}' is no attribute of it; the attributes are {', '.join(READ)}"
        )
    return {key: value for key, value in description.items() if key in READ}


def _cores(name: str, given: Any) -> int:
    """A number of cores that a description gives; TargetError for what is none."""
    if not str(given).isdigit() or not int(given):
        raise TargetError(f"target {name}: num-cores: expected a whole number from 1 on, got {given!r}")
    return int(given)


def _arm_features(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        return arm_features(tvm.target.Target({"kind": "llvm", **attributes}))
    except Exception:
        return ()  # what TVM does not accept, it says where the target is built


def _build(
    name: str, attributes: dict[str, Any], features: tuple[str, ...], machine: str, threads: int | None
) -> CpuTarget:
    if machine == "aarch64":
        attributes = with_tuning(attributes)
    elif machine == "x86_64" and "avx512f" in features:
        attributes = with_full_vectors(attributes)
    description = {"kind": "llvm", **attributes, "num-cores": threads or cpu_count()}
    try:
        target = tvm.target.Target(description)
        processor = processor_of(target)
    except Exception as error:
        raise TargetError(f"target {name}: TVM does not accept it: {last_line(str(error))}") from None
    if machine == "aarch64":
        facts = arm_facts(str(attributes.get("mcpu", "")))
    else:
        facts = {64: X86_AVX512, 32: X86_AVX2}.get(processor.vector_bytes, X86_SSE)
    return CpuTarget(
        name=name,
        tvm_target=target,
        facts=facts,
        architecture=machine,
        kernels=KernelChooser(processor, facts.gigahertz),
        processor=processor,
        features=features,
    )
