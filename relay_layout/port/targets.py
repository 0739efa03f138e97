"""Target strings of the old TVM, ``"llvm -mcpu=core-avx2"``, as the dictionaries that today's TVM takes."""

import re
import shlex

_KINDS = frozenset(
    [
        "c",
        "cuda",
        "ext_dev",
        "hexagon",
        "llvm",
        "metal",
        "nvptx",
        "opencl",
        "rocm",
        "stackvm",
        "test",
        "vulkan",
        "webgpu",
    ]
)
"""The words that an old target string may begin with."""

_NUMBERS = frozenset(
    [
        "image_base_address_alignment",
        "l2_cache_size_bytes",
        "max_function_args",
        "max_num_threads",
        "max_shared_memory_per_block",
        "max_threads_per_block",
        "num-cores",
        "opt-level",
        "registers_per_block",
        "texture_depth_limit",
        "texture_spatial_limit",
        "thread_warp_size",
        "vector-width",
        "vtcm-capacity",
    ]
)
_LISTS = frozenset(["cl-opt", "keys", "libs", "mattr"])
_TEXTS = frozenset(["arch", "device", "jit", "mabi", "mcpu", "mfloat-abi", "model", "mtriple", "tag"])
_SWITCHES = frozenset(
    f"fast-math{kind}" for kind in ("", "-arcp", "-contract", "-ninf", "-nnan", "-nsz", "-reassoc")
)
_GONE = frozenset(
    ["executor", "interface-api", "link-params", "march", "runtime", "system-lib", "unpacked-api"]
)
_OLD_NAMES = {"target": "mtriple"}
_WORD = re.compile(r"--?([A-Za-z][\w-]*)(?:=(.*))?")

Target = dict[str, str | int | bool | list[str]]


def is_target_string(text: str) -> bool:
    """Whether a text is a target with options, in the old form."""
    if text.strip().partition(" ")[0] not in _KINDS:
        return False
    words = [_WORD.fullmatch(word) for word in _words(text)[1:]]
    known = _NUMBERS | _LISTS | _TEXTS | _SWITCHES | _GONE | set(_OLD_NAMES)
    return all(words) and any(word.group(1) in known for word in words if word)


def target_fields(text: str) -> Target | None:
    """The dictionary for an old target string; None where an option of it has no place in it."""
    kind, *words = _words(text)
    if kind == "stackvm":
        return None
    fields: Target = {"kind": kind}
    for word in words:
        found = _WORD.fullmatch(word)
        if found is None:
            return None
        name, value = _OLD_NAMES.get(found.group(1), found.group(1)), found.group(2)
        field = _field(name, value)
        if field is None or name in fields:
            return None
        fields[name] = field
    return fields


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation mark without its partner
        return text.split()


def _field(name: str, value: str | None) -> str | int | bool | list[str] | None:
    if name in _SWITCHES:
        return {None: True, "1": True, "true": True, "0": False, "false": False}.get(value)
    if not value or any(character in value for character in "%{\"'"):
        return None
    if name in _NUMBERS:
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None
    if name in _LISTS:
        return value.split(",")
    return value if name in _TEXTS else None


def literal(fields: Target) -> str:
    """The dictionary as Python source, with double quotes."""

    def quoted(value: str | int | bool | list[str]) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(quoted, value))}]"
        if not isinstance(value, str):
            return repr(value)
        # repr() escapes what must be, and prefers single quotes.
        return f'"{value}"' if '"' not in value and repr(value) == f"'{value}'" else repr(value)

    return "{" + ", ".join(f"{quoted(name)}: {quoted(value)}" for name, value in fields.items()) + "}"
