"""Scripts that have nothing to do with Relay come out as they went in."""

import random
import sysconfig
from pathlib import Path

import pytest

from relay_layout.errors import InputError
from relay_layout.port import port_source

ROOT = Path(__file__).resolve().parents[3]
_LIBRARY = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
_OURS = [path for folder in ("scripts", "examples") for path in sorted((ROOT / folder).glob("*.py"))]


def nothing_there(name: str) -> bool:
    raise AssertionError(f"asked for {name}")


@pytest.mark.parametrize("path", random.Random(0).sample(_LIBRARY, 40), ids=lambda path: path.name)
def test_a_script_without_tvm_is_unchanged(path: Path) -> None:
    source = path.read_bytes()
    ported = port_source(source, str(path), nothing_there)
    assert (ported.source, ported.changed, ported.not_carried) == (source, 0, ()), f"relay-layout port {path}"


@pytest.mark.parametrize("path", _OURS, ids=lambda path: path.name)
def test_a_script_for_this_package_is_unchanged(path: Path) -> None:
    source = path.read_bytes()
    ported = port_source(source, str(path))
    assert (ported.source, ported.changed, ported.not_carried) == (source, 0, ()), f"relay-layout port {path}"


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\n",
        b"x = 1",
        b"\xef\xbb\xbfx = 1\r\n",
        b"# coding: latin-1\nx = '\xe4'\n",
        b"x = 1\r\ny = '''a\rb'''\r\n",
        b"x = 1\x0c\ny = 2\n",
        b"import os\\\n\n",
        "größe = '\N{PILE OF POO}'\n".encode(),
    ],
)
def test_bytes_are_kept(source: bytes) -> None:
    assert port_source(source, has_name=nothing_there).source == source


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "cp1252", "shift_jis"])
def test_a_script_keeps_its_encoding(encoding: str) -> None:
    umlaut = "ä" if encoding != "shift_jis" else "ア"
    cookie = "utf-8" if encoding.startswith("utf-8") else encoding
    text = f"# coding: {cookie}\nimport tvm\nx = '{umlaut}'; tvm.gpu(0)\n"
    found = port_source(text.encode(encoding), has_name=lambda name: name != "tvm.gpu")
    assert found.source == text.replace("gpu", "cuda").encode(encoding)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"x = 1\nprint 'x'\n", "s.py:2:1: this is no Python 3: Missing parentheses in call to 'print'"),
        (b"a = (\n", "s.py:1:5: this is no Python 3: '(' was never closed"),
        (b"x = 1\n  y = 2\n", "s.py:2:"),
        (b"x\x00y", "s.py"),
        (b"\n\nx = '\xff'\n", "s.py:3: this is no utf-8 text: invalid start byte"),
        (b"x = '\xff'\n", "s.py: its encoding cannot be told: invalid or missing encoding declaration"),
        (b"# coding: nonsense\n", "s.py: its encoding cannot be told: unknown encoding"),
        (b"# coding: rot13\n", "s.py: its encoding cannot be told:"),
        (
            b"# coding: utf-7\nx = '+AGE-'\n",
            "s.py: text in the encoding utf-7 cannot be changed byte for byte",
        ),
        (b"(" * 5000, "s.py"),
        (b"-" * 100_000 + b"1", "s.py"),
    ],
)
def test_what_is_no_python_is_refused(source: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        port_source(source, "s.py", nothing_there)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_long_sum_is_no_matter() -> None:
    source = b"import tvm\nx = " + b" + ".join([b"tvm.gpu()"] * 900) + b"\n"
    found = port_source(source, has_name=lambda name: name != "tvm.gpu")
    assert found.source == source.replace(b"gpu", b"cuda")
