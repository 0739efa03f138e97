"""ARM processors as data: their names, clocks and memory, and the instructions that kernels may need."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tvm.target import Target, codegen

from relay_layout.errors import TargetError
from relay_layout.targets.facts import AARCH64, TargetFacts

PREFIX = "aarch64-"
"""Names of targets are this and a core, such as ``aarch64-cortex-a76``, and features: ``+fullfp16``."""

TRIPLE = "aarch64-linux-gnu"


@dataclass(frozen=True)
class ArmCore:
    """Where a core is usually found: how many of them, at which clock, with which memory.

    ``gigabytes_per_second``: what all cores together read from beyond the level-2 cache. ``tuning`` are
    attributes for LLVM that change no instruction set: in-order cores take longer to load a pair of vectors
    than to load two.
    """

    cores: int
    gigahertz: float
    gigabytes_per_second: float
    tuning: tuple[str, ...] = ()


ARM_BOARDS = {
    "cortex-a53": ArmCore(4, 1.4, 2.5, ("+disable-ldp",)),
    "cortex-a55": ArmCore(4, 1.8, 6.0, ("+disable-ldp",)),
    "cortex-a72": ArmCore(4, 1.5, 4.0),
    "cortex-a76": ArmCore(4, 2.4, 12.0),
    "cortex-a77": ArmCore(4, 2.4, 14.0),
    "cortex-a78": ArmCore(4, 2.4, 16.0),
    "cortex-a710": ArmCore(4, 2.5, 20.0),
    "cortex-x1": ArmCore(1, 2.8, 20.0),
    "cortex-x2": ArmCore(1, 3.0, 24.0),
    "cortex-x3": ArmCore(1, 3.2, 26.0),
    "neoverse-n1": ArmCore(4, 2.5, 30.0),
    "neoverse-n2": ArmCore(4, 2.8, 40.0),
    "neoverse-v1": ArmCore(4, 2.6, 40.0),
    "neoverse-v2": ArmCore(4, 2.8, 50.0),
    "apple-a14": ArmCore(4, 3.0, 50.0),
}
"""By the name that LLVM has for the core; the A53, the A72 and the A76 as in the Raspberry Pi 3, 4 and 5.

``apple-a14`` stands for Apple's cores from the M1 on."""

CHECKED_FEATURES = (
    "bf16",
    "dotprod",
    "fp16fml",
    "fullfp16",
    "i8mm",
    "lse",
    "rcpc",
    "rdm",
    "sve",
    "sve2",
)
"""Extensions that LLVM uses where a target has them, in its words; the base of ARMv8 has the others."""


KERNEL_FEATURES = ("bf16", "dotprod", "fullfp16", "i8mm")
"""Those that kernels have instructions of their own for."""


def arm_target(name: str) -> dict[str, Any]:
    """TVM's description of a target named like ``aarch64-cortex-a76+i8mm``; without cores of its own.

    Raises :class:`TargetError` with the names there are.
    """
    core, *features = name.removeprefix(PREFIX).split("+")
    if core not in ARM_BOARDS:
        names = ", ".join(PREFIX + known for known in ARM_BOARDS)
        raise TargetError(f"target {name!r} is not known; the ARM targets are {names}")
    unknown = [feature for feature in features if feature not in CHECKED_FEATURES]
    if unknown:
        known_features = ", ".join(f"+{feature}" for feature in CHECKED_FEATURES)
        raise TargetError(f"target {name!r}: no feature '+{unknown[0]}'; the features are {known_features}")
    description: dict[str, Any] = {"mtriple": TRIPLE, "mcpu": core}
    if features:
        description["mattr"] = [f"+{feature}" for feature in features]
    return description


def arm_facts(cpu: str) -> TargetFacts:
    """The rates of a core by LLVM's name; those of a middling one for a name without a row."""
    board = ARM_BOARDS.get(cpu)
    if board is None:
        return AARCH64
    return replace(
        AARCH64,
        name=f"aarch64 {cpu}",
        gigahertz=board.gigahertz,
        gigabytes_per_second=board.gigabytes_per_second,
    )


def arm_features(target: Target) -> tuple[str, ...]:
    """The extensions that code compiled for ``target`` may use, of those that machines differ in."""
    compiled = {str(name) for name in codegen.llvm_get_cpu_features(target)}
    return tuple(name for name in CHECKED_FEATURES if name in compiled)


def present_attributes(cpu: str, compiled: Collection[str], present: Collection[str]) -> dict[str, Any]:
    """LLVM's attributes of a machine with the features ``present``, where ``cpu`` implies ``compiled``.

    A core without a name, such as an emulated one, gets those that kernels are made for.
    """
    found = [f"+{name}" for name in KERNEL_FEATURES if name in present and name not in compiled]
    hidden = [f"-{name}" for name in compiled if name not in present]
    return {"mcpu": cpu, **({"mattr": [*found, *hidden]} if found or hidden else {})}


def with_tuning(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of an ARM target, and those that its core is best compiled with."""
    board = ARM_BOARDS.get(str(attributes.get("mcpu", "")))
    given = [str(feature) for feature in attributes.get("mattr", ())]
    added = [feature for feature in board.tuning if feature not in given] if board else []
    return {**attributes, "mattr": [*given, *added]} if added else dict(attributes)
