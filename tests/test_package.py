"""The wheel, built from the source distribution, far from the repository."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import requires
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("LICENSE", "NOTICE", "README.md", "pyproject.toml", "relay_layout", "topi_ext", "tuning_logs")

SMOKE = """
import pathlib, sys
import numpy as np
import relay_layout, topi_ext, tuning_logs
home = pathlib.Path(sys.argv[1])
assert all(home in pathlib.Path(each.__file__).parents for each in (relay_layout, topi_ext, tuning_logs))
assert tuning_logs.paths()
compiled = relay_layout.compile(
    "squeezenet1_1", input_shapes={"input": (1, 3, 64, 64)}, threads=1, report="report.html"
)
compiled.save("model.rla")
image = np.random.default_rng(0).standard_normal((1, 3, 64, 64), dtype="float32")
output = relay_layout.load("model.rla", threads=1).run({"input": image})["output"]
assert output.shape == (1, 1000) and np.isfinite(output).all()
"""


def run(words: list[str | Path], **options: object) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=1200, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, made of what the source distribution holds."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("package")
    source = folder / "source"
    source.mkdir()
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name, **({"ignore": ignore} if (ROOT / name).is_dir() else {}))
    build = "import setuptools.build_meta as build; print(build.{}({!r}))"
    run([sys.executable, "-c", build.format("build_sdist", str(folder))], cwd=source)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    run([sys.executable, "-c", build.format("build_wheel", str(folder))], cwd=unpacked)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_all_that_is_not_code(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("relay_layout", "topi_ext", "tuning_logs"):
        assert f"{package}/py.typed" in names
    wanted = [path for path in (ROOT / "relay_layout/report/assets").iterdir()]
    wanted += (ROOT / "tuning_logs").glob("*.jsonl")
    assert len(wanted) > 5
    assert {str(path.relative_to(ROOT)) for path in wanted} <= names
    licences = {Path(name).name for name in names if "/licenses/" in name}
    assert licences == {"LICENSE", "NOTICE"}
    assert not [name for name in names if name.startswith(("tests/", "scripts/"))]


def test_every_module_is_in_the_wheel(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package in ("relay_layout", "topi_ext", "tuning_logs"):
        modules = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert modules <= names


def test_the_notice_names_all_that_is_installed() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    extras = {"dev", "test", "train"}
    wanted = {
        re.split(r"[^\w.-]", line)[0]
        for line in requires("relay-layout") or []
        if not extras & set(re.findall(r'extra == "(\w+)"', line))
    }
    assert len(wanted) > 10
    named = set(re.findall(r"[\w.-]+", notice))
    assert wanted - {"relay-layout", "xgboost"} <= named


def test_the_wheel_works_without_the_repository(wheel: Path, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    zipfile.ZipFile(wheel).extractall(home)
    environment = {**os.environ, "PYTHONPATH": str(home)}
    run([sys.executable, "-c", SMOKE, home], cwd=work, env=environment)
    assert "NCHW" in run(
        [sys.executable, "-m", "relay_layout", "explain", "report.html"], cwd=work, env=environment
    )


@pytest.mark.slow
def test_pip_alone_installs_it_into_a_clean_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "clean", with_pip=True)
    python = tmp_path / "clean/bin/python"
    run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", f"{wheel}[demo,linker,tune]"])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    home = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    run([python, "-c", SMOKE, home], cwd=tmp_path, env=environment)
    command = tmp_path / "clean/bin/relay-layout"
    run([command, "compile", "resnet18", "-o", "resnet18.rla"], cwd=tmp_path, env=environment)
    assert "median" in run([command, "run", "resnet18.rla"], cwd=tmp_path, env=environment)
