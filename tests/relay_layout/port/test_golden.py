"""Whole scripts, as people wrote them for Relay, before and after."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import port_golden as golden
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_layout.errors import InputError
from relay_layout.port import port_source

ROOT = Path(__file__).resolve().parents[3]


def reproducer(name: str) -> str:
    return f"relay-layout port tests/data/port/{name}.before | diff - tests/data/port/{name}.after"


@pytest.mark.parametrize("name", golden.NAMES)
def test_script(name: str) -> None:
    assert port_source(golden.before(name), name, golden.known).text == golden.after(name).decode(), (
        reproducer(name)
    )


@pytest.mark.parametrize("name", golden.NAMES)
def test_what_could_not_be_carried(name: str) -> None:
    ported = port_source(golden.before(name), name, golden.known)
    found = [f"{place.line}:{place.column}: {place.name}: {place.reason}" for place in ported.not_carried]
    assert found == golden.notes(name), reproducer(name)


@pytest.mark.parametrize("name", golden.NAMES)
def test_a_ported_script_stays_as_it_is(name: str) -> None:
    ported = port_source(golden.after(name), name, golden.known)
    assert (ported.text, ported.changed) == (golden.after(name).decode(), 0), reproducer(name)


@pytest.mark.parametrize("name", golden.NAMES)
def test_the_same_with_the_line_ends_of_windows(name: str) -> None:
    windows = golden.before(name).replace(b"\n", b"\r\n")
    expected = golden.after(name).replace(b"\n", b"\r\n")
    assert port_source(windows, name, golden.known).source == expected, reproducer(name)


@pytest.mark.parametrize("name", golden.NAMES)
def test_comments_stay(name: str) -> None:
    def comments(text: bytes) -> list[bytes]:
        return [line.partition(b"#")[2] for line in text.splitlines() if b"#" in line]

    assert comments(golden.after(name)) == comments(golden.before(name)), reproducer(name)


@given(data=st.data())
@settings(max_examples=60)
def test_a_damaged_script_is_refused_or_ported_once_and_for_all(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(golden.NAMES))
    lines = golden.before(name).splitlines(keepends=True)
    first = data.draw(st.integers(0, len(lines) - 1))
    count = data.draw(st.integers(1, len(lines) - first))
    elsewhere = data.draw(st.integers(0, len(lines)))
    kept = lines[:first] + lines[first + count :]
    damaged = b"".join(
        kept[:elsewhere] + lines[first : first + count] * data.draw(st.integers(0, 2)) + kept[elsewhere:]
    )
    try:
        ported = port_source(damaged, name, golden.known)
    except InputError:
        return
    where = f"port_source({damaged!r}, has_name=port_golden.known)"
    ast.parse(ported.source)
    assert port_source(ported.source, name, golden.known).source == ported.source, where


def test_a_ported_script_runs(tmp_path: Path) -> None:
    script = tmp_path / "quick_start.py"
    script.write_bytes(port_source(golden.before("quick_start.py")).source)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment)
    # 3x3 ones over a border of zeros: 42 * 42 sums over 3 channels, for 8 channels, 4 times.
    assert done.stdout.splitlines()[-1:] == [f"(1, 4, 16, 16) {float((3 * 16 - 2) ** 2 * 3 * 8 * 4)}"], (
        done.stderr
    )
