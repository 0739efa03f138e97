"""The page: one file that needs no network, with the data, what draws it and nothing else.

Names come from models and are not trusted: they are only ever data, in an element that is no code, and the
page's policy lets no script but its own run and lets nothing be loaded.
"""

import base64
import hashlib
import html
import json
from importlib.resources import files
from string import Template
from typing import Any

from relay_layout.report.drawing import HEIGHT, WIDTH, draw
from relay_layout.report.schema import Report, Target

DATA_BEGIN = '<script type="application/json" id="report">'
DATA_END = "</script>"

_SCRIPTS = ("text.js", "colours.js", "graph.js", "details.js", "tables.js", "memory.js", "main.js")


def page_of(report: Report) -> str:
    """The whole page."""
    script = "\n".join(["'use strict';", "(() => {", *map(_asset, _SCRIPTS), "})();"])
    style = _asset("page.css")
    policy = f"default-src 'none'; base-uri 'none'; script-src {_digest(script)}; style-src {_digest(style)}"
    return Template(_asset("page.html")).substitute(
        title=html.escape(f"{report['model']}: layouts"),
        policy=policy,
        style=style,
        script=script,
        data=f"{DATA_BEGIN}{_embedded(report)}{DATA_END}",
        drawing=f'<script type="application/json" id="drawing">{_embedded(_drawings(report))}{DATA_END}',
    )


def _drawings(report: Report) -> dict[str, Any]:
    return {"width": WIDTH, "height": HEIGHT, "targets": [_drawing(target) for target in report["targets"]]}


def _drawing(target: Target) -> dict[str, Any]:
    drawn = draw(len(target["nodes"]), [(edge["source"], edge["target"]) for edge in target["edges"]])
    return {"nodes": drawn.nodes, "edges": drawn.edges, "width": drawn.width, "height": drawn.height}


def _embedded(data: Any) -> str:
    """JSON that no parser of HTML or of scripts takes for anything else."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _asset(name: str) -> str:
    return (files("relay_layout.report") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
