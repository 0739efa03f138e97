"""Releases of TVM that are supported, and what is said of others."""

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from relay_layout import versions
from relay_layout.versions import SUPPORTED, UnsupportedVersionError, check_versions

ROOT = Path(__file__).resolve().parents[2]


def installed(monkeypatch: pytest.MonkeyPatch, **found: str) -> None:
    def version(package: str) -> str:
        if package.replace("-", "_") not in found:
            raise PackageNotFoundError(package)
        return found[package.replace("-", "_")]

    monkeypatch.setattr(versions, "version", version)


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


def test_importing_says_so_in_one_line(tmp_path: Path) -> None:
    record = tmp_path / "apache_tvm-0.19.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: apache-tvm\nVersion: 0.19.0\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", "import relay_layout"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "relay_layout.versions.UnsupportedVersionError: apache-tvm 0.19.0 is not supported, only "
        ">=0.27,<0.28: pip install 'apache-tvm>=0.27,<0.28'"
    )
