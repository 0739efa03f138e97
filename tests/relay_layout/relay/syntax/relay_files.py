"""Files that a real Relay wrote, and damage to them."""

import json
import random
from pathlib import Path

DATA = Path(__file__).parents[4] / "tests" / "data" / "relay"
TEXTS = sorted(path.name for path in DATA.glob("*.relay"))
DOCUMENTS = sorted(path.name for path in DATA.glob("*.json"))

_MARKS = (
    "( ) { } [ ] , ; : . = -> % @ ? # /* */ // ' - + 0 1 -1 99999999999 1e999f 3f16 inff %0 %1 %x @main null"
)
_WORDS = (
    "fn let if else def free_var match True None meta[relay.Constant][0] Tensor float32 #[metadata] {} true"
)
_QUOTED = '" "0" "-1" "1" "2" "38"'
_PIECES = [*_MARKS.split(), *_WORDS.split(), *_QUOTED.split(), "\n", "\x00", "\u00e9"]


def damaged(text: str, seed: int) -> str:
    """The text with a few pieces removed, doubled, moved, swapped or put in, by the seed."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(text) + 1)
        to = min(len(text), at + rng.choice((1, 1, 2, 5, 20, 200)))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + text[to:]
        elif kind == 2:
            text = text[:at] + text[at:to] * rng.choice((2, 3, 50)) + text[to:]
        elif kind == 3:
            other = rng.randrange(len(text) + 1)
            text = text[:other] + text[at:to] + text[other:]
        elif kind == 4:
            text = text[:at] + rng.choice(_PIECES) + text[at:]
        else:
            text = text[:at] + rng.choice(_PIECES) + text[to:]
    return text


def damaged_document(text: str, seed: int) -> str:
    """The JSON with a few of its nodes changed to others that are JSON still, by the seed."""
    rng = random.Random(seed)
    document = json.loads(text)
    nodes = document["nodes"]
    for _ in range(rng.randint(1, 3)):
        node, other = rng.choice(nodes), rng.choice(nodes)
        fields = node.get("attrs") or {"": ""}
        index = rng.choice((0, rng.randrange(len(nodes)), len(nodes), -1))
        value = rng.choice((str(index), "x", "", "nan", None, 1, [], *(other.get("attrs") or {}).values()))
        kind = rng.randrange(7)
        if kind == 0:
            node["type_key"] = rng.choice((other.get("type_key"), "tir.Any", "relay.Match", None))
        elif kind == 1:
            fields[rng.choice(list(fields))] = value
        elif kind == 2:
            del fields[rng.choice(list(fields))]
        elif kind == 3 and node.get("data"):
            node["data"][rng.randrange(len(node["data"]))] = rng.choice((index, index, "0", None))
        elif kind == 4:
            node["data"] = rng.choice((other.get("data"), [index] * 9, {}, 1))
        elif kind == 5:
            node.clear()
            node.update(other)
        else:
            document["root"] = index
    return json.dumps(document)


def damaged_bytes(data: bytes, seed: int) -> bytes:
    """The bytes cut short or with a few of them changed, by the seed."""
    rng = random.Random(seed)
    changed = bytearray(data)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 8, 127, 128, 255))
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.3 else changed)
