"""Which linker is taken, and what is said where there is none."""

import importlib.util
import shutil
import sys

import pytest

from relay_layout.errors import TargetError
from relay_layout.lower.library.link import link_command, link_executable


@pytest.fixture(autouse=True)
def bare_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CROSS_CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_named_compiler_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "ccache gcc")
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert link_command() == ["ccache", "gcc"]


def test_first_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/clang" if name == "clang" else None)
    assert link_command() == ["clang"]


def test_packaged_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    assert link_command() == [sys.executable, "-m", "ziglang", "cc"]


def test_none() -> None:
    with pytest.raises(TargetError) as raised:
        link_command()
    assert str(raised.value) == (
        "linking needs a C compiler and none of cc, gcc, clang, g++, clang++ is installed; install one, "
        "or pip install 'relay-layout[linker]'"
    )


def test_cross_compiler_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "gcc")
    monkeypatch.setenv("CROSS_CC", "my-gcc --sysroot=/board")
    assert link_command("aarch64-linux-gnu") == ["my-gcc", "--sysroot=/board"]
    assert link_command() == ["gcc"]


@pytest.mark.parametrize(
    ("present", "command"),
    [
        ({"aarch64-linux-gnu-gcc", "clang", "ld.lld"}, ["aarch64-linux-gnu-gcc"]),
        (
            {"cc", "clang", "ld.lld"},
            ["clang", "--target=aarch64-linux-gnu", "-fuse-ld=lld", "-nostdlib"],
        ),
        (
            {"cc", "clang"},
            [sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-linux-gnu"],
        ),
    ],
)
def test_cross_compilers_in_turn(
    present: set[str], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: name if name in present else None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    assert link_command("aarch64-linux-gnu") == command


def test_a_system_of_another_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    assert link_command("aarch64-linux-musl")[-2:] == ["-target", "aarch64-linux-musl"]


def test_android_takes_the_clang_of_its_kit_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other one links with a C library that Android does not have."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "ziglang" or None)
    present = {"aarch64-linux-gnu-gcc", "clang", "ld.lld"}
    monkeypatch.setattr(shutil, "which", lambda name: name if name in present else None)
    with pytest.raises(TargetError) as raised:
        link_command("aarch64-linux-android")
    assert str(raised.value) == (
        "linking for aarch64-linux-android needs the clang of Android's NDK; put its folder bin on the path, "
        "or its name into $CROSS_CC, such as aarch64-linux-android24-clang"
    )
    present |= {"aarch64-linux-android33-clang", "aarch64-linux-android26-clang"}
    assert link_command("aarch64-linux-android") == ["aarch64-linux-android26-clang"]


class Executable:
    """Hands its linker two objects, as TVM's executable does."""

    def export_library(self, path: str, fcompile, workspace_dir: str) -> None:
        fcompile(path, ["a.o", "b.o"])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("no-such-compiler", "linking with no-such-compiler failed: no such file"),
        ("sh -c 'echo ld: wrong format >&2; exit 3'", "linking with sh failed: ld: wrong format"),
    ],
)
def test_failures_are_one_line(monkeypatch: pytest.MonkeyPatch, command: str, message: str) -> None:
    monkeypatch.setenv("CC", command)
    with pytest.raises(TargetError) as raised:
        link_executable(Executable())
    assert str(raised.value) == message


@pytest.mark.parametrize("amx", [True, False])
def test_a_library_asks_for_amx_where_its_kernels_may_use_it(
    monkeypatch: pytest.MonkeyPatch, amx: bool
) -> None:
    monkeypatch.setenv("CC", "sh -c 'echo \"$@\" >&2; exit 1' cc")
    with pytest.raises(TargetError) as raised:
        link_executable(Executable(), amx=amx)
    assert ("-DAMX" in str(raised.value)) == amx


NO_HEADERS = "launch.c:10: fatal error: pthread.h: No such file or directory"


@pytest.mark.parametrize(
    ("triple", "variable", "package"),
    [("aarch64-linux-gnu", "CROSS_CC", "libc6-dev-arm64-cross"), ("", "CC", "libc6-dev")],
)
def test_a_compiler_without_headers(
    monkeypatch: pytest.MonkeyPatch, triple: str, variable: str, package: str
) -> None:
    """Debian installs a cross compiler without a C library where recommended packages are left out."""
    monkeypatch.setenv(variable, f"sh -c 'echo In file included from it: >&2; echo {NO_HEADERS} >&2; exit 1'")
    with pytest.raises(TargetError) as raised:
        link_executable(Executable(), triple)
    assert str(raised.value) == (
        f"linking with sh failed: {NO_HEADERS}; "
        f"install the C library's headers for that compiler, {package} on Debian"
    )
