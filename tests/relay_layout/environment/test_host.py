"""Machines: what this one has, and whether an artifact runs on it."""

import os
from pathlib import Path
from typing import Any

import pytest

from relay_layout.artifact import check_runnable, choose_target
from relay_layout.artifact.target import check_target
from relay_layout.environment import host
from relay_layout.errors import ArtifactError, InputError

X86_V3 = "fpu lm avx avx2 bmi1 bmi2 f16c fma abm movbe xsave cx16 popcnt lahf_lm pni sse4_1 sse4_2 ssse3"


def cpuinfo(*flags: str, field: str = "flags\t\t") -> str:
    return "".join(f"processor\t: {index}\n{field}: {line}\n\n" for index, line in enumerate(flags))


@pytest.fixture
def x86_v3(monkeypatch: pytest.MonkeyPatch) -> None:
    features = host.parse_cpuinfo(cpuinfo(X86_V3), "x86_64")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "operating_system", lambda: "linux")
    monkeypatch.setattr(host, "cpu_features", lambda: features)
    monkeypatch.setattr(host, "gpu_architecture", lambda: "sm_90")


def unrunnable(*, kind: str = "llvm", **target: Any) -> str:
    with pytest.raises(ArtifactError) as caught:
        check_runnable({"kind": kind, **target}, name="model.rla")
    return str(caught.value)


@pytest.mark.usefixtures("x86_v3")
def test_check_runnable() -> None:
    check_runnable({"kind": "llvm", "mtriple": "x86_64-unknown-linux-gnu", "features": ["avx2", "sse4.2"]})
    check_runnable({"kind": "llvm", "arch": "amd64"})
    check_runnable({"kind": "cuda", "arch": "sm_90", "mtriple": "x86_64-linux-gnu"})
    assert unrunnable(mtriple="aarch64-linux-gnu", mcpu="cortex-a76") == (
        "model.rla: built for aarch64 (cortex-a76), this machine is x86_64; "
        "compile it with --target native here"
    )
    assert unrunnable(mtriple="armv7l-linux-gnueabihf").startswith("model.rla: built for arm, this machine")
    assert unrunnable(mtriple="x86_64-apple-darwin21") == (
        "model.rla: built for darwin, this machine runs linux; compile it with --target native here"
    )
    assert unrunnable(arch="x86_64", features=["avx512vl", "avx2", "avx512f"]) == (
        "model.rla: needs CPU features avx512f, avx512vl which this machine lacks; "
        "recompile with --target x86-64-v3"
    )


@pytest.mark.usefixtures("x86_v3")
def test_a_gpu_of_another_kind_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = {"kind": "cuda", "arch": "sm_80", "mtriple": "x86_64-linux-gnu"}
    assert unrunnable(**gpu) == (
        "model.rla: built for sm_80, this machine's GPU is sm_90; compile it with --target cuda-sm_90"
    )
    monkeypatch.setattr(host, "gpu_architecture", lambda: "")
    assert unrunnable(**gpu) == (
        "model.rla: built for a GPU (sm_80), but no CUDA device is found here; "
        "compile it with --target native here"
    )
    assert choose_target(x86_targets("avx2") | {"gpu": gpu}) == "avx2"


class Driver:
    """NVIDIA's, of a GPU whose compute capability is 9.0, or of none."""

    def __init__(self, devices: int) -> None:
        self.devices = devices

    def cuInit(self, flags: int) -> int:
        return 0

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:
        return 0 if ordinal < self.devices else 101

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:
        value._obj.value = {75: 9, 76: 0}[attribute]
        return 0


@pytest.mark.parametrize(("devices", "found"), [(1, "sm_90"), (0, "")])
def test_the_architecture_of_a_gpu(monkeypatch: pytest.MonkeyPatch, devices: int, found: str) -> None:
    monkeypatch.setattr(host.ctypes, "CDLL", lambda name: Driver(devices))
    assert host.gpu_architecture() == found


def test_no_driver_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(host.ctypes, "CDLL", missing)
    assert host.gpu_architecture() == ""


def test_a_target_for_a_gpu_names_its_architecture() -> None:
    with pytest.raises(ArtifactError) as caught:
        check_target({"kind": "cuda", "mtriple": "x86_64-linux-gnu"})
    assert str(caught.value) == "target: says no arch, so it cannot be told which GPUs run it"


def test_unknown_features_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "architecture", lambda: "aarch64")
    monkeypatch.setattr(host, "cpu_features", lambda: None)
    check_runnable({"kind": "llvm", "arch": "arm64", "features": ["sve2"]})
    monkeypatch.setattr(host, "cpu_features", lambda: frozenset({"neon"}))
    assert unrunnable(arch="arm64", features=["sve2"]) == (
        "model.rla: needs CPU feature sve2 which this machine lacks; recompile with --target native here"
    )


def x86_targets(*features: str) -> dict[str, dict[str, Any]]:
    """Targets whose names are the CPU feature that each needs."""
    return {name: {"kind": "llvm", "arch": "x86_64", "features": [name]} for name in features}


@pytest.mark.usefixtures("x86_v3")
def test_choose_target() -> None:
    assert choose_target(x86_targets("sse4_2", "avx2", "avx512f")) == "avx2"
    assert choose_target(x86_targets("avx512f", "avx2", "sse4_2")) == "sse4_2"
    assert choose_target(x86_targets("sse4_2", "avx2"), "sse4_2") == "sse4_2"
    with pytest.raises(InputError) as unknown:
        choose_target(x86_targets("sse4_2", "avx2"), "avx", name="model.rla")
    assert str(unknown.value) == "model.rla: not built for 'avx'; it was built for sse4_2, avx2"


@pytest.mark.usefixtures("x86_v3")
@pytest.mark.parametrize("wanted", [None, "avx512f"])
def test_a_target_that_this_machine_cannot_run(wanted: str | None) -> None:
    with pytest.raises(ArtifactError) as caught:
        choose_target(x86_targets("avx512f"), wanted, name="model.rla")
    assert str(caught.value) == (
        "model.rla: needs CPU feature avx512f which this machine lacks; recompile with --target x86-64-v3"
    )


@pytest.mark.usefixtures("x86_v3")
def test_no_target_that_this_machine_can_run() -> None:
    foreign = {"arm": {"kind": "llvm", "arch": "arm64"}}
    with pytest.raises(ArtifactError) as caught:
        choose_target(x86_targets("avx512f", "amx") | foreign, name="model.rla")
    assert str(caught.value) == (
        "model.rla: this machine runs none of its targets: avx512f (needs CPU feature avx512f which this "
        "machine lacks), amx (needs CPU feature amx which this machine lacks), arm (built for aarch64, this "
        "machine is x86_64); recompile with --target x86-64-v3"
    )


@pytest.mark.usefixtures("x86_v3")
def test_where_features_are_unknown_the_first_target_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "cpu_features", lambda: None)
    foreign = {"arm": {"kind": "llvm", "arch": "arm64"}}
    assert choose_target(foreign | x86_targets("sse4_2", "avx2")) == "sse4_2"


def test_this_machine() -> None:
    features = host.cpu_features()
    assert features is None or "avx2" not in features or "sse4.2" in features
    check_runnable({"kind": "llvm", "arch": host.architecture(), "features": sorted(features or ())})
    assert 1 <= host.cpu_count() <= len(os.sched_getaffinity(0))
    assert host.operating_system() == "linux"


def test_parse_cpuinfo() -> None:
    flags = host.parse_cpuinfo(
        cpuinfo("fpu avx512_vnni amx_int8 sse4_2 sha_ni", "fpu avx512_vnni sse4_2"), "x86_64"
    )
    assert flags is not None
    assert flags >= {"x87", "avx512_vnni", "avx512vnni", "sse4.2", "crc32"}
    assert not flags & {"amx_int8", "amx-int8", "sha"}
    words = {"fp", "asimd", "asimddp", "atomics", "sha1", "sha2", "i8mm"}
    arm = cpuinfo(" ".join(words), field="Features\t")
    expected = frozenset(words | {"fp-armv8", "neon", "dotprod", "lse"})
    assert host.parse_cpuinfo(arm, "aarch64") == expected
    assert host.parse_cpuinfo(cpuinfo(X86_V3), "aarch64") is None
    assert host.parse_cpuinfo(arm, "riscv64") is None
    assert host.parse_cpuinfo("", "x86_64") is None


def test_flags_tell_of_every_feature_that_is_found_by_them() -> None:
    flags = f"{X86_V3} avx512_vnni avx512vl amx_tile sha_ni pclmulqdq"

    def plain(word: str) -> str:
        return word.translate({ord(sign): None for sign in "_.-"})

    told = {plain(flag) for flag in flags.split()}
    features = host.parse_cpuinfo(cpuinfo(flags), "x86_64")
    assert features is not None and len(features) > len(flags.split())
    assert [name for name in features if not told & set(map(plain, host.x86_words(name)))] == []
    assert not told & set(map(plain, host.x86_words("avx512bf16")))


@pytest.mark.parametrize("allowed", [True, False])
def test_matrices_count_where_the_system_lets_a_process_use_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, allowed: bool
) -> None:
    listing = tmp_path / "cpuinfo"
    listing.write_text(cpuinfo(f"{X86_V3} amx_tile amx_int8"))
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    monkeypatch.setattr(host, "CPU_INFO", listing)
    monkeypatch.setattr(host, "may_use_amx", lambda: allowed)
    features = host.cpu_features.__wrapped__()
    assert features is not None and "avx2" in features
    assert {name for name in features if name.startswith("amx")} == (
        {"amx_tile", "amx_int8", "amx-tile", "amx-int8"} if allowed else set()
    )


@pytest.mark.parametrize(
    ("listing", "model"),
    [
        (
            "vendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 1\nmodel name\t: AMD EPYC\n",
            "AMD EPYC (family 25, model 1)",
        ),
        ("processor\t: 0\nmodel name\t: Example CPU 9000\n", "Example CPU 9000"),
        (
            "BogoMIPS\t: 50.00\nCPU implementer\t: 0x41\nCPU variant\t: 0x3\nCPU part\t: 0xd0c\n",
            "implementer 0x41, part 0xd0c",
        ),
    ],
    ids=["numbers", "no-numbers", "ARM"],
)
def test_cpu_model(tmp_path: Path, listing: str, model: str) -> None:
    """Two designs may have one name: hypervisors call all of a vendor's alike."""
    path = tmp_path / "cpuinfo"
    path.write_text(listing)
    assert host.cpu_model(path) == model


def test_cpu_model_without_a_listing(tmp_path: Path) -> None:
    assert host.cpu_model(tmp_path / "none")


def test_portable_target() -> None:
    v3 = host.parse_cpuinfo(cpuinfo(X86_V3), "x86_64")
    v4 = host.parse_cpuinfo(cpuinfo(f"{X86_V3} avx512f avx512bw avx512cd avx512dq avx512vl"), "x86_64")
    assert v3 is not None
    assert host.portable_target(v4) == "x86-64-v4"
    assert host.portable_target(v3) == "x86-64-v3"
    assert host.portable_target(v3 - {"avx2"}) == "x86-64-v2"
    assert host.portable_target(None) == host.portable_target(frozenset({"neon"})) == "native"


@pytest.mark.parametrize(
    ("name", "normal"),
    [
        ("AMD64", "x86_64"),
        ("arm64", "aarch64"),
        ("aarch64_be", "aarch64_be"),
        ("armv8l", "arm"),
        ("i686", "x86"),
    ],
)
def test_normalize_architecture(name: str, normal: str) -> None:
    assert host.normalize_architecture(name) == normal


def test_cgroup_quota(tmp_path: Path) -> None:
    def put(name: str, text: str) -> None:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert host.cgroup_quota(tmp_path, "0::/a/b\n") is None
    put("a/b/cpu.max", "max 100000\n")
    assert host.cgroup_quota(tmp_path, "0::/a/b\n") is None
    put("a/cpu.max", "250000 100000\n")
    assert host.cgroup_quota(tmp_path, "0::/a/b\n") == 2.5
    assert host.cgroup_quota(tmp_path, "0::/../a\n") == 2.5
    put("cpu/cpu.cfs_quota_us", "-1\n")
    put("cpu/cpu.cfs_period_us", "100000\n")
    assert host.cgroup_quota(tmp_path, "3:cpuset:/\n2:cpu,cpuacct:/pod\n") is None
    put("cpu/cpu.cfs_quota_us", "150000\n")
    assert host.cgroup_quota(tmp_path, "3:cpuset:/\n2:cpu,cpuacct:/pod\n") == 1.5
    put("a/cpu.max", "nonsense\n")
    assert host.cgroup_quota(tmp_path, "garbage\n0::/a\n") is None


def test_cpu_count_obeys_the_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    for quota, cores in [(None, 8), (2.5, 2), (0.5, 1), (64.0, 8)]:
        monkeypatch.setattr(host, "cgroup_quota", lambda *_, quota=quota: quota)
        assert host.cpu_count() == cores
