"""The page in a real browser."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay_layout.choice.plan import LayoutPlan, plan_layout
from relay_layout.compiler import convert
from relay_layout.layout_request import LayoutRequest
from relay_layout.report.choices import described_graph
from relay_layout.report.files import write_report
from relay_layout.report.schema import KIND, SCHEMA, Report
from relay_layout.targets import resolve_target
from scripts.conversion_time import network
from tests.browser import MISSING, Browser, open_browser
from tests.relay_layout.report.conftest import HOSTILE

pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING)

OPERATORS = 3000
ENTER, ESCAPE = "\ue007", "\ue00c"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as opened:
        yield opened


def write_page(path: Path, plan: LayoutPlan) -> Path:
    """A page of a plan, for which nothing was compiled."""
    nodes, edges, transforms = described_graph(plan, [])
    data: dict[str, Any] = {
        "kind": KIND,
        "schema": SCHEMA,
        "model": path.stem,
        "relay_layout": "0",
        "tvm": "0",
        "targets": [
            {
                "name": "x86-64-v4",
                "target": {"kind": "llvm"},
                "threads": 2,
                "solver": {"status": "optimal", "objective_us": 1.0, "seconds": 0.0},
                "compile_seconds": 0.0,
                "nodes": nodes,
                "edges": edges,
                "transforms": transforms,
                "calls": [],
                "memory": {"weight_bytes": 0, "storage_bytes": 0, "tensor_bytes": 0, "storages": []},
                "profile": None,
            }
        ],
    }
    report: Report = data  # type: ignore[assignment]
    write_report(path, report)
    return path


def open_page(browser: Browser, path: Path) -> None:
    """AssertionError unless it opens in 2 s."""
    browser.go("about:blank")
    browser.go(path.as_uri())
    browser.wait("document.documentElement.dataset.ready")
    opened = int(browser.script("return document.documentElement.dataset.ready"))
    assert opened < 2000, f"{opened} ms"


@pytest.fixture
def page(browser: Browser, compiled: Path) -> Browser:
    browser.go("about:blank")
    browser.go((compiled / "model.html").as_uri())
    browser.wait("document.documentElement.dataset.ready")
    return browser


def details(browser: Browser) -> str:
    return str(browser.script("return document.getElementById('details').innerText"))


def test_the_page_says_what_was_chosen(page: Browser) -> None:
    text = page.script("return document.body.innerText")
    for expected in ("IRModule", "x86-64-v2", "4\ntransforms left", "NCHW16c", "Before", "After"):
        assert expected in text, expected
    assert page.errors() == []


def test_names_of_a_model_are_never_code(page: Browser) -> None:
    page.keys("/script" + ENTER)
    assert HOSTILE in details(page)
    assert page.script("return window.taken") is None
    assert page.script("return document.querySelectorAll('img').length") == 0


def test_a_click_tells_why(page: Browser) -> None:
    page.script("location.hash = ''")
    place = page.script(
        "const box = document.getElementById('after').getBoundingClientRect();"
        "return [box.left + box.width / 2, box.top, box.height]"
    )
    for offset in range(10, int(place[2]), 25):
        page.click(place[0], place[1] + offset)
        if "nn.softmax" in details(page):
            break
    text = details(page)
    assert "a block must not cut C, which nn.softmax needs as one run" in text
    assert "keeps its own" in text
    assert "NCHW16c → NCHW" in text


def test_alternatives_and_the_kernel_of_an_operator(page: Browser) -> None:
    page.keys("/active" + ENTER)
    text = details(page)
    assert "chosen" in text
    assert "NCHW → NCHW" in text
    assert "default: least estimate" in text
    assert text.rstrip().endswith("Computed with\n\nfirst")


def test_search_by_keyboard(page: Browser) -> None:
    page.keys("/conv2d")
    assert page.script("return document.getElementById('hits').textContent") == "2 matches"
    page.keys(ENTER)
    first = details(page).splitlines()[0]
    page.keys(ENTER)
    assert {first, details(page).splitlines()[0]} == {"first", HOSTILE}
    page.keys(ENTER)
    assert details(page).splitlines()[0] == first
    page.keys(ESCAPE)
    assert page.script("return document.getElementById('results').hidden")


def test_nothing_found(page: Browser) -> None:
    page.keys("/no such operator" + ENTER)
    assert page.script("return document.getElementById('hits').textContent") == "0 matches"


def test_an_address_names_an_operator(browser: Browser, compiled: Path) -> None:
    browser.go("about:blank")
    browser.go((compiled / "model.html").as_uri() + "#node=shares")
    browser.wait("document.documentElement.dataset.ready")
    assert details(browser).startswith("shares\n")


@pytest.mark.parametrize(
    ("tab", "expected"),
    [
        ("Kernels", "default, direct"),
        ("Transforms", "NCHW → NCHW16c"),
        ("Memory", "allocated once"),
        ("Operators", "keeps its own"),
    ],
)
def test_tables(page: Browser, tab: str, expected: str) -> None:
    page.script(
        "[...document.querySelectorAll('#tabs button')].find((each) => each.textContent === arguments[0])"
        ".click()",
        tab,
    )
    rows = page.script("return document.getElementById('table').innerText").replace("\t", " ")
    if tab == "Transforms":
        rows = rows.replace("NCHW NCHW16c", "NCHW → NCHW16c")
    assert expected in rows
    assert page.errors() == []


def test_both_drawings_show_something_in_both_themes(page: Browser) -> None:
    count = (
        "const canvas = document.getElementById(arguments[0]);"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "const seen = new Set(); for (let i = 0; i < data.length; i += 4)"
        " seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]); return seen.size"
    )
    for _ in range(2):
        for side in ("before", "after"):
            assert page.script(count, side) > 10
        page.script("document.getElementById('theme').click()")
        time.sleep(0.2)
    red = (
        "const canvas = document.getElementById(arguments[0]);"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;"
        "let count = 0; for (let i = 0; i < data.length; i += 4)"
        " count += data[i] === 200 && data[i + 1] === 16 && data[i + 2] === 46; return count"
    )
    assert page.script(red, "before") == 0
    assert page.script(red, "after") > 100


def test_the_largest_built_in_network(browser: Browser, tmp_path: Path) -> None:
    """Opens in 2 s; a search finds an operator, a click on the drawing another."""
    conversion = convert("densenet121", target="x86-64-v4", shipped_records=False)
    open_page(browser, write_page(tmp_path / "densenet121.html", conversion.plan))
    browser.keys("/concat")
    found = browser.script("return document.getElementById('hits').textContent")
    assert int(found.split()[0]) >= 58, "as many concatenations as it has layers in dense blocks"
    browser.keys(ENTER)
    assert "concat" in details(browser)
    browser.keys(ESCAPE)
    before = details(browser)
    left, top, width, height = browser.script(
        "const box = document.getElementById('after').getBoundingClientRect();"
        "return [box.left, box.top, box.width, box.height]"
    )
    # The search has brought an operator to the middle of the drawing; its neighbours are around it.
    for offset in range(0, int(height) // 2, 12):
        browser.click(left + width / 2, top + height / 2 + offset)
        if details(browser) not in ("", before):
            break
    assert details(browser) not in ("", before)
    assert browser.errors() == []


def test_a_large_graph(browser: Browser, tmp_path: Path) -> None:
    """At most 10 MB; opens in 2 s; found, drawn and moved at once."""
    target = resolve_target("x86-64-v4", threads=2)
    plan = plan_layout(network("mixed", OPERATORS), LayoutRequest.parse("NCHW16c"), target)
    large = write_page(tmp_path / "large.html", plan)
    assert large.stat().st_size < 10e6
    open_page(browser, large)
    browser.keys("/permute_dims")
    found = browser.script("return document.getElementById('hits').textContent")
    assert int(found.split()[0]) > 10
    browser.keys(ENTER)
    assert "permute_dims" in details(browser)
    # From the press of a key to the frame that shows every operator.
    taken = browser.script(
        "const start = performance.now();"
        "document.getElementById('fit').click();"
        "return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame("
        "() => resolve(performance.now() - start))))"
    )
    assert taken < 1000, f"{taken} ms"
    assert browser.errors() == []
