"""Targets as TVM up to 0.18 wrote them, such as ``llvm -mcpu=core-avx2 -mattr=+avx2,+fma``."""

from typing import Any

from relay_layout.errors import TargetError

READ = ("mcpu", "mattr", "mtriple", "num-cores")
"""Attributes of TVM's targets of kind "llvm" that say what the code is for."""

_READ = {"llvm": READ, "cuda": ("arch",)}
"""Attributes that say what the code is for, by the target's kind."""

_PASSED_OVER = (
    "device",
    "host",
    "keys",
    "libs",
    "link-params",
    "max_num_threads",
    "max_threads_per_block",
    "max_shared_memory_per_block",
    "model",
    "opt-level",
    "registers_per_block",
    "runtime",
    "system-lib",
    "tag",
    "thread_warp_size",
)
"""Options that do not change the code."""


def is_target_string(text: str) -> bool:
    """Whether a text is such a string, with or without options."""
    return text.split()[:1] in [[kind] for kind in _READ]


def description_of(text: str, *, with_others: bool = False) -> dict[str, Any]:
    """TVM's description today of such a string: ``{"kind": "llvm", "mcpu": "core-avx2", ...}``.

    Values are as they are written, but lists and whole numbers. TargetError for an unknown option;
    ``with_others`` such words are passed over, as logs hold them.
    """
    kind, *words = text.split()
    read = _READ[kind]
    options: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        is_known = word.startswith("-") and name in (*read, *_PASSED_OVER)
        if not is_known and not with_others:
            raise TargetError(f"target {text!r}: '{word}' is not understood; use {', '.join(read)}")
        if not equals and words and not words[0].startswith("-"):
            value = words.pop(0)
        if is_known and name in read:
            options[name] = value
    if "mattr" in options:
        options["mattr"] = options["mattr"].split(",")
    if options.get("num-cores", "").isdigit():
        options["num-cores"] = int(options["num-cores"])
    return {"kind": kind, **options}
