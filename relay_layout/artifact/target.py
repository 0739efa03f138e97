"""What an artifact was built for, and whether this machine is that."""

import re
from collections.abc import Mapping
from typing import Any

from relay_layout.artifact import fields
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, InputError

_TEXTS = ("mtriple", "arch", "mcpu")
_FEATURE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# For other kinds, such as cuda, `arch` names the accelerator and not the machine that holds it.
_HOST_KINDS = ("llvm", "c")
_SYSTEMS = {
    "linux": "linux",
    "darwin": "darwin",
    "macos": "darwin",
    "windows": "windows",
    "win32": "windows",
}


def check_target(target: object) -> dict[str, Any]:
    """A copy of ``target``, found to be a target dictionary. Raises ArtifactError if it is not.

    kind: str, as TVM names it, such as ``llvm``.
    mtriple: str, LLVM's triple of the machine that loads the library; may be left out for the kinds
        ``llvm`` and ``c`` if ``arch`` (str, such as ``x86_64``) is there.
    arch: str, for the kind ``cuda`` that of the GPU, such as ``sm_90``.
    mcpu: str, optional.
    features: list of str, the CPU features the library needs, in LLVM's names without a sign; optional.
    Further keys may hold any JSON.
    """
    found = fields.mapping(target, "target")
    fields.text(found.get("kind"), "target.kind")
    for key in _TEXTS:
        if key in found:
            fields.text(found[key], f"target.{key}", empty=key == "mcpu")
    if not architecture_of(found):
        raise ArtifactError("target: says no mtriple, so it cannot be told which machines can load it")
    if found["kind"] == "cuda" and "arch" not in found:
        raise ArtifactError("target: says no arch, so it cannot be told which GPUs run it")
    for index, feature in enumerate(fields.sequence(found.get("features", []), "target.features")):
        where = f"target.features[{index}]"
        if not _FEATURE.fullmatch(fields.text(feature, where)):
            raise ArtifactError(
                f"{where}: {fields.shown(feature)} is not the name of a CPU feature, such as avx2"
            )
    try:
        fields.check_json(found)
    except ArtifactError as error:
        raise ArtifactError(f"target: {error}") from None
    return dict(found)


def check_runnable(target: Mapping[str, Any], *, name: str = "artifact") -> None:
    """Raises ArtifactError if this machine cannot run what was built for ``target``, a build's.

    Compares architecture, operating system and CPU features; what this machine does not tell about itself
    is not checked. ``name`` begins the message; pass the artifact's path.
    """
    found = _obstacle(target)
    if found is not None:
        raise ArtifactError(f"{name}: {found[0]}; {found[1]}")


def obstacle_here(target: Mapping[str, Any]) -> str | None:
    """Why this machine cannot run what was built for ``target``; None if it can."""
    found = _obstacle(target)
    return None if found is None else found[0]


def choose_target(
    targets: Mapping[str, Mapping[str, Any]], wanted: str | None = None, *, name: str = "artifact"
) -> str:
    """The key of the target to run here: ``wanted``, or else the last that this machine can run.

    Of a machine that does not tell its CPU features, the first: whoever lists targets lists the one that asks
    least first. ``name`` begins messages. InputError for a ``wanted`` that is not among ``targets``,
    ArtifactError if this machine runs none of those in question.
    """
    if wanted is not None and wanted not in targets:
        raise InputError(f"{name}: not built for {wanted!r}; it was built for {', '.join(targets)}")
    if wanted is not None or len(targets) == 1:
        (key,) = targets if wanted is None else (wanted,)
        check_runnable(targets[key], name=name)
        return key
    obstacles = {key: _obstacle(target) for key, target in targets.items()}
    runnable = [key for key, found in obstacles.items() if found is None]
    if runnable:
        return runnable[0 if host.cpu_features() is None else -1]
    found = {key: obstacle for key, obstacle in obstacles.items() if obstacle is not None}
    reasons = ", ".join(f"{key} ({why})" for key, (why, _) in found.items())
    remedy = next(remedy for _, remedy in found.values())
    raise ArtifactError(f"{name}: this machine runs none of its targets: {reasons}; {remedy}")


def _obstacle(target: Mapping[str, Any]) -> tuple[str, str] | None:
    """Why this machine cannot run what was built for ``target``, and what to do; None if it can."""
    remedy = "compile it with --target native here"
    here = host.architecture()
    built_for = architecture_of(target)
    if built_for != here:
        mcpu = target.get("mcpu")
        model = f" ({mcpu})" if mcpu else ""
        return f"built for {built_for}{model}, this machine is {here}", remedy
    system, system_here = system_of(target), host.operating_system()
    if system and system_here and system != system_here:
        return f"built for {system}, this machine runs {system_here}", remedy
    if target.get("kind") == "cuda":
        found = host.gpu_architecture()
        if not found:
            return f"built for a GPU ({target['arch']}), but no CUDA device is found here", remedy
        if found != target["arch"]:
            return (
                f"built for {target['arch']}, this machine's GPU is {found}",
                f"compile it with --target cuda-{found}",
            )
    have = host.cpu_features()
    missing = sorted(set(target.get("features", ())) - have) if have is not None else []
    if not missing:
        return None
    level = host.portable_target(have)
    return (
        f"needs CPU feature{'s' if len(missing) > 1 else ''} {', '.join(missing)} which this machine lacks",
        f"recompile with --target {level}{' here' if level == 'native' else ''}",
    )


def architecture_of(target: Mapping[str, Any]) -> str:
    """The architecture of the machine that loads what was built, such as ``x86_64``; empty if unknown."""
    triple = target.get("mtriple")
    if triple:
        return host.normalize_architecture(str(triple).split("-", 1)[0])
    return host.normalize_architecture(str(target.get("arch", ""))) if runs_on_host(target) else ""


def runs_on_host(target: Mapping[str, Any]) -> bool:
    """Whether the code is for the processor of the machine that loads it, and not for an accelerator."""
    return target.get("kind") in _HOST_KINDS


def system_of(target: Mapping[str, Any]) -> str:
    """The operating system of that machine as :func:`host.operating_system` calls it; empty if unknown."""
    for part in str(target.get("mtriple", "")).lower().split("-")[1:]:
        for prefix, system in _SYSTEMS.items():
            if part.startswith(prefix):
                return system
    return ""
