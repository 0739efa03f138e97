"""README and docs: every snippet and command runs, tables are current, links lead somewhere."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("onnx")

import relay_layout
import tuning_logs
from relay_layout.artifact import container
from relay_layout.bench import history
from relay_layout.deployment import description
from relay_layout.environment.host import gpu_architecture
from relay_layout.errors import InputError
from relay_layout.frontend.onnx import operators
from relay_layout.ops import TABLE
from relay_layout.relay.callbacks import reset
from relay_layout.relay.registries.mixed_precision import MIXED
from relay_layout.report import schema as report_schema
from relay_layout.verify.meanings import MEANINGS
from scripts import operator_table
from tests import docs_runner as docs
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.tune.records import log

ROOT = docs.ROOT
READ = ("boards.md", "cuda.md")
"""Pages that start servers or need a GPU: their commands run in the sweep only."""


@pytest.fixture
def callbacks() -> Iterator[None]:
    """Forgets afterwards what pages register."""
    tables: list[dict[Any, Any]] = [TABLE, MEANINGS, operators._REGISTERED]
    before = [dict(table) for table in tables]
    yield
    for table, rows in zip(tables, before, strict=True):
        table.clear()
        table.update(rows)
    for name in ("nn.conv2d", "nn.softmax"):
        reset(name)
    MIXED.reset("tanh")


@pytest.mark.usefixtures("callbacks")
@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_snippets_and_commands(page: Path, folder: Path) -> None:
    names = docs.prepare(folder)
    if page.name == "formats.md":
        docs.run_small("relay-layout compile model.onnx -o model.rla --report model.html", page.name)
    for block in docs.blocks(page):
        if block.language == "python":
            if not docs.needs_torch(block):
                docs.run_snippet(block, names)
            continue
        for command, place in docs.commands(block):
            if page.name in READ:
                if command.startswith("relay-layout"):
                    docs.parse(command)
                continue
            docs.run_small(command, place)


def test_snippets_with_torch(folder: Path) -> None:
    pytest.importorskip("torch", reason="these snippets need torch")
    names = {"relay_layout": relay_layout}
    snippets = [block for page in docs.PAGES for block in docs.blocks(page) if docs.needs_torch(block)]
    assert snippets
    for block in snippets:
        docs.run_snippet(block, names)
    assert (folder / "network.rla").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_commands_as_they_stand(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if page.name == "cuda.md" and not gpu_architecture():
        pytest.skip("no GPU")
    docs.prepare(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    started: list[subprocess.Popen[str]] = []
    try:
        for block in docs.blocks(page):
            if block.language == "sh":
                for command, place in docs.commands(block):
                    docs.run_whole(command, place, started)
    finally:
        for process in reversed(started):
            # The whole group: TVM's tracker is a child of what was started.
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=30)


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_commands_in_sentences(page: Path) -> None:
    for command in docs.inline(page):
        try:
            docs.parse(command)
        except InputError as error:
            # A sentence may leave out what is clear.
            assert "arguments are required" in str(error), command


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", docs.PAGES, ids=lambda page: page.name)
def test_files_and_modules_that_are_named_are_there(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name in re.findall(r"`((?:relay_layout|topi_ext|tests|scripts|examples|docs)/[\w/.]+)`", text):
        assert (ROOT / name).exists(), f"{page.name}: {name}"
    for name in re.findall(r"`python -m ((?:tests|scripts)\.[\w.]+)", text):
        assert (ROOT / f"{name.replace('.', '/')}.py").is_file(), f"{page.name}: {name}"


def test_every_page_is_reached_from_the_readme() -> None:
    seen = {ROOT / "README.md"}
    open_pages = [ROOT / "README.md"]
    while open_pages:
        page = open_pages.pop()
        for target in re.findall(r"\]\(([^)#]+\.md)[^)]*\)", page.read_text(encoding="utf-8")):
            found = (page.parent / target).resolve()
            if "://" not in target and found not in seen:
                seen.add(found)
                open_pages.append(found)
    assert set(docs.PAGES) <= seen


def test_the_operator_table_is_current() -> None:
    current = operator_table.PAGE.read_text(encoding="utf-8")
    assert current == operator_table.page(), "docs/operators.md is old; run make docs"


def test_versions_of_formats_are_current() -> None:
    formats, artifact = ((ROOT / "docs" / name).read_text() for name in ("formats.md", "artifact.md"))
    assert f"UTF-8 JSON of schema {report_schema.SCHEMA}; the fields" in formats
    assert f'("relay-layout benchmark"), `schema` ({history.SCHEMA})' in formats
    assert f"`relay-layout-network` and its version, {description.VERSION}, which" in formats
    assert f"u32 format version, {container.FORMAT_VERSION} |" in artifact


def test_pictures_are_small() -> None:
    pictures = list((ROOT / "docs").glob("*.png"))
    assert pictures
    assert all(picture.stat().st_size < 300_000 for picture in pictures)


def test_what_was_measured_on_a_gpu_names_it() -> None:
    """The boards of the records that are shipped: in the README and on the page on CUDA."""
    paths = [path for chip in MULTIPROCESSORS.values() for path in tuning_logs.paths_of(chip.name)]
    boards = {record.cpu for record in log.load(paths)[0]}
    assert boards == {"NVIDIA H100 80GB HBM3"}
    readme, page = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/cuda.md"))
    for board in boards:
        name = board.split()[1]
        assert f"on two GPUs of sm_90, an {name} " in readme
        assert f"**Measured on two boards** of sm_90, an {name} " in page
