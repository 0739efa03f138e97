"""What other packages' exceptions say, made fit for one line."""

import re

_NOTATIONS = (
    (re.compile(r'ir\.Op\(span=None.*?name="([\w.]+)".*?support_level=\d+\)'), r"\1"),
    (re.compile(r"\bT\.int64\((-?\d+)\)"), r"\1"),
    (re.compile(r"\bR\.shape\((\[[^\]]*\])\)"), r"\1"),
    (re.compile(r"\s+"), " "),
)
_LONGEST_REASON = 300


def reason(error: BaseException) -> str:
    """What an exception of TVM or of a reader of models says, as one line without preambles and notations."""
    text = str(error).partition("==> Context")[0].partition("Stack trace")[0]
    lines = [line.strip() for line in text.splitlines()]
    sentence = " ".join(line for line in lines if line and not line.startswith(("Traceback", "File ")))
    for pattern, plain in _NOTATIONS:
        sentence = pattern.sub(plain, sentence)
    if len(sentence) > _LONGEST_REASON:
        sentence = sentence[:_LONGEST_REASON].rsplit(" ", 1)[0] + " ..."
    return sentence.strip() or type(error).__name__
