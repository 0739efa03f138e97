"""What this machine is: its architecture, its CPU features and how many cores may be used.

Compiling (``--target native``) and loading an artifact ask the same questions, so they ask them here.
"""

import ctypes
import functools
import os
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from relay_layout.errors import InputError
from topi_ext.machine.amx_permission import may_use_amx
from topi_ext.machine.arm_features import CAPABILITY_WORDS, llvm_names, told_features

_ARCHITECTURES = {
    "amd64": "x86_64",
    "x64": "x86_64",
    "x86-64": "x86_64",
    "arm64": "aarch64",
    "arm64e": "aarch64",
    "i386": "x86",
    "i486": "x86",
    "i586": "x86",
    "i686": "x86",
}
_NARROW = {"x86_64": "x86", "aarch64": "arm"}

_CAPABILITY = 75, 76
"""The CUDA driver's numbers of the attributes that hold a device's compute capability, major and minor."""

CPU_INFO = Path("/proc/cpuinfo")
"""Where Linux lists its processors."""

# /proc/cpuinfo and LLVM name the same feature differently; targets are written in LLVM's words.
_X86_ALIASES = {
    "3dnowprefetch": "prfchw",
    "abm": "lzcnt",
    "avx512f": "evex512",
    "bmi1": "bmi",
    "fpu": "x87",
    "lahf_lm": "sahf",
    "lm": "64bit",
    "pclmulqdq": "pclmul",
    "pni": "sse3",
    "rdrand": "rdrnd",
    "sha_ni": "sha",
    "sse4_1": "sse4.1",
    "user_shstk": "shstk",
}

_X86_LEVELS = {
    "x86-64-v4": ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"),
    "x86-64-v3": ("avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"),
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
}


def normalize_architecture(name: str) -> str:
    """One spelling each: ``amd64`` is ``x86_64``, ``arm64`` is ``aarch64``, ``armv7l`` is ``arm``.

    A name it does not know comes back in lower case.
    """
    lowered = name.strip().lower()
    if lowered in _ARCHITECTURES:
        return _ARCHITECTURES[lowered]
    if lowered.startswith(("arm", "thumb")):
        return "arm"
    return lowered


def architecture() -> str:
    """The architecture this process runs as, such as ``x86_64``, ``aarch64`` or ``arm``."""
    name = normalize_architecture(platform.machine())
    # A 32-bit Python on a 64-bit kernel can only load 32-bit libraries, whatever uname says.
    return name if sys.maxsize > 2**32 else _NARROW.get(name, name)


def operating_system() -> str:
    """The operating system in lower case: ``linux``, ``darwin``, ``windows``; empty if unknown."""
    return platform.system().lower()


@functools.cache
def cpu_features() -> frozenset[str] | None:
    """The CPU features of this machine, in the kernel's words and in LLVM's (``sse4_1`` and ``sse4.1``).

    None where the system does not tell (anything but Linux on x86 or ARM); then no check is possible.
    Registers of matrices count where the system lets this process use them.
    """
    if architecture() == "aarch64" and operating_system() == "linux":
        # Under an emulator /proc/cpuinfo may be the host's.
        library = ctypes.CDLL(None)
        library.getauxval.restype, library.getauxval.argtypes = ctypes.c_ulong, [ctypes.c_ulong]
        return told_features([library.getauxval(word) for word in CAPABILITY_WORDS])
    try:
        text = CPU_INFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = parse_cpuinfo(text, architecture())
    if found is None or may_use_amx():
        return found
    return frozenset(name for name in found if not name.startswith("amx"))


def gpu_architecture() -> str:
    """The architecture of the first CUDA device, such as ``sm_90``; "" where there is none, or no driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ""
    device = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0):
        return ""
    numbers = (ctypes.c_int(), ctypes.c_int())
    for attribute, number in zip(_CAPABILITY, numbers, strict=True):
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
    return f"sm_{numbers[0].value}{numbers[1].value}"


def parse_cpuinfo(text: str, arch: str) -> frozenset[str] | None:
    """The features that every processor of a ``/proc/cpuinfo`` listing has; None if it has none for ``arch``.

    Only the field that belongs to ``arch`` counts: under an emulator the file may be the host's.
    """
    is_x86 = arch in ("x86_64", "x86")
    wanted = "flags" if is_x86 else "features" if arch in ("aarch64", "arm") else None
    common: frozenset[str] | None = None
    for line in text.splitlines():
        field, separator, value = line.partition(":")
        if separator and field.strip().lower() == wanted:
            words = frozenset(value.split())
            common = words if common is None else common & words
    if not common:
        return None
    return common | frozenset(_x86_names(common) if is_x86 else llvm_names(common))


def _x86_names(flags: frozenset[str]) -> Iterator[str]:
    for flag in flags:
        if flag in _X86_ALIASES:
            yield _X86_ALIASES[flag]
        if flag == "sse4_2":
            yield from ("sse4.2", "crc32")
        elif flag.startswith("avx"):
            yield flag.replace("_", "")
        elif flag.startswith("amx_"):
            yield flag.replace("_", "-")


def x86_words(feature: str) -> tuple[str, ...]:
    """Flags of ``/proc/cpuinfo`` that tell of a feature of LLVM's, by any of which a processor has it.

    Words that differ from LLVM's in signs between letters alone, as ``sse4_1`` for ``sse4.1``, are left out.
    """
    aliases = {**_X86_ALIASES, "sse4_2": "crc32"}
    return feature, *(word for word, name in aliases.items() if name == feature)


def portable_target(features: frozenset[str] | None) -> str:
    """The highest ``x86-64-vN`` level that ``features`` (LLVM's names) satisfy, else ``native``."""
    have = features or frozenset()
    needed: set[str] = set()
    best = "native"
    for level, extra in reversed(_X86_LEVELS.items()):
        needed.update(extra)
        if not needed <= have:
            break
        best = level
    return best


def cpu_model(listing: Path = CPU_INFO) -> str:
    """The model of this machine's CPU, such as ``AMD EPYC (family 25, model 1)``.

    The numbers are of the design: hypervisors give different ones the same name. ARM's cores have no name:
    ``implementer 0x41, part 0xd0b``. Without a ``listing``, what Python knows.
    """
    text = _read(listing)

    def field(name: str) -> str | None:
        found = re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE)
        return found[1].strip() if found else None

    name, family, model = field("model name"), field("cpu family"), field("model")
    if name is not None:
        return f"{name} (family {family}, model {model})" if family and model else name
    implementer, part = field("CPU implementer"), field("CPU part")
    if implementer and part:
        return f"implementer {implementer}, part {part}"
    return platform.processor() or platform.machine()


def check_threads(threads: int | None) -> None:
    """InputError for what is no number of threads; None stands for one on each core."""
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise InputError(f"threads: expected a whole number from 1 on, got {threads!r}")


def cpu_count() -> int:
    """How many cores this process may keep busy, at least 1.

    The scheduler's affinity mask, cut down to whole cores of the control group's quota: a thread more
    than the quota allows would be stopped in the middle of a parallel loop that the others wait for.
    """
    try:
        available = len(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        available = os.cpu_count() or 1
    quota = cgroup_quota(Path("/sys/fs/cgroup"), _read(Path("/proc/self/cgroup")))
    if quota is not None:
        available = min(available, int(quota))
    return max(1, available)


def cgroup_quota(root: Path, membership: str) -> float | None:
    """The least CPU quota, in cores, that control groups (version 1 or 2) set; None if none does.

    ``root`` is where the control groups are mounted, ``membership`` the text of ``/proc/PID/cgroup``.
    """
    quotas = []
    for line in membership.splitlines():
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        hierarchy, controllers, group = fields
        # In a container the group may lie outside of what is mounted; its parents still count.
        parts = [part for part in group.split("/") if part not in ("", "..")]
        if hierarchy == "0" and not controllers:
            bases = [root, root / "unified"]
        elif "cpu" in controllers.split(","):
            bases = [root / controllers, root / "cpu"]
        else:
            continue
        for base in bases:
            for depth in range(len(parts), -1, -1):
                quota = _folder_quota(base.joinpath(*parts[:depth]))
                if quota is not None:
                    quotas.append(quota)
    return min(quotas, default=None)


def _folder_quota(folder: Path) -> float | None:
    words = _read(folder / "cpu.max").split()
    if not words:
        words = [*_read(folder / "cpu.cfs_quota_us").split(), *_read(folder / "cpu.cfs_period_us").split()]
    if len(words) != 2:
        return None
    try:
        quota, period = int(words[0]), int(words[1])
    except ValueError:
        return None
    return quota / period if quota > 0 and period > 0 else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
