"""Releases of TVM that are supported, and what is said of others."""

import importlib.metadata
import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from relay_layout.environment.versions import (
    SUPPORTED,
    MissingPackageError,
    UnsupportedVersionError,
    check_versions,
    needed_packages,
)

ROOT = Path(__file__).resolve().parents[3]


def installed(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    def version(package: str) -> str:
        if package.replace("-", "_") not in found:
            raise PackageNotFoundError(package)
        return found[package.replace("-", "_")]

    monkeypatch.setattr(importlib.metadata, "version", version)
    check_versions.cache_clear()


@pytest.mark.parametrize("tvm", ["0.27.0", "0.27.0.post1", "0.27.1.dev3+gabc"])
def test_supported(tvm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, apache_tvm=tvm, apache_tvm_ffi="0.1.14.post1")
    check_versions()


@pytest.mark.parametrize(
    ("tvm", "ffi", "message"),
    [
        (
            "0.26.0",
            "0.1.14",
            "apache-tvm 0.26.0 is not supported, only >=0.27,<0.28: pip install 'apache-tvm>=0.27,<0.28'",
        ),
        (
            "0.28.0",
            "0.1.14",
            "apache-tvm 0.28.0 is not supported, only >=0.27,<0.28: pip install 'apache-tvm>=0.27,<0.28'",
        ),
        (
            "0.27.0",
            "0.1.15",
            "apache-tvm-ffi 0.1.15 is not supported, only >=0.1.14,<0.1.15: "
            "pip install 'apache-tvm-ffi>=0.1.14,<0.1.15'",
        ),
    ],
)
def test_not_supported(tvm: str, ffi: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, apache_tvm=tvm, apache_tvm_ffi=ffi)
    with pytest.raises(UnsupportedVersionError) as error:
        check_versions()
    assert str(error.value) == message
    assert isinstance(error.value, ImportError)


@pytest.mark.parametrize("found", [{}, {"apache_tvm": "unknown"}])
def test_what_cannot_be_told_is_left_to_the_import(
    found: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(monkeypatch, **found)
    check_versions()


def test_the_ranges_are_those_that_pip_is_given() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for package, (first, beyond) in SUPPORTED.items():
        found = re.search(rf'"{package}>=([0-9.]+)[^<]*<([0-9.]+)"', text)
        assert found is not None, package
        lower, upper = (tuple(map(int, part.strip(".").split("."))) for part in found.groups())
        assert lower[: len(first)] == first
        assert upper == beyond


@pytest.mark.parametrize(
    "code",
    ["import relay_layout; relay_layout.load", "from relay_layout import load", "import relay_layout.relay"],
)
def test_the_first_use_says_so_in_one_line(code: str, old_tvm: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=old_tvm)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "relay_layout.environment.versions.UnsupportedVersionError: apache-tvm 0.19.0 is not supported, only "
        ">=0.27,<0.28: pip install 'apache-tvm>=0.27,<0.28'"
    )


def test_the_command_says_so_in_one_line(old_tvm: dict[str, str]) -> None:
    words = [sys.executable, "-m", "relay_layout", "run", "model.rla"]
    done = subprocess.run(words, capture_output=True, text=True, env=old_tvm)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "relay-layout: error: apache-tvm 0.19.0 is not supported, only >=0.27,<0.28: "
        "pip install 'apache-tvm>=0.27,<0.28'\n"
    )


@pytest.fixture
def old_tvm(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds TVM 0.19."""
    record = tmp_path / "apache_tvm-0.19.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-tvm\nVersion: 0.19.0\n")
    return {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}


@pytest.mark.parametrize(
    ("module", "package", "wanted"),
    [
        ("tvm", "apache-tvm", "apache-tvm>=0.27,<0.28"),
        ("tvm_ffi.core", "apache-tvm-ffi", "apache-tvm-ffi>=0.1.14,<0.1.15"),
        ("scipy.optimize", "scipy", "scipy"),
    ],
)
def test_a_package_that_is_missing(module: str, package: str, wanted: str) -> None:
    with pytest.raises(MissingPackageError) as error, needed_packages():
        raise ModuleNotFoundError(f"No module named '{module}'", name=module)
    assert str(error.value) == (
        f"the Python that runs this, {sys.executable}, has no package {package}: use the one that "
        f"relay-layout was installed with, or {sys.executable} -m pip install '{wanted}'"
    )


def test_another_module_that_is_missing_is_not_explained() -> None:
    with pytest.raises(ModuleNotFoundError, match="No module named 'torch'"), needed_packages():
        raise ModuleNotFoundError("No module named 'torch'", name="torch")


def test_a_python_without_packages(tmp_path: Path) -> None:
    words = [sys.executable, "-S", "-m", "relay_layout", "convert", "resnet18"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"relay-layout: error: the Python that runs this, {sys.executable}, has no package apache-tvm: "
        f"use the one that relay-layout was installed with, or {sys.executable} -m pip install "
        "'apache-tvm>=0.27,<0.28'\n"
    )
