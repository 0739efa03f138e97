"""What other packages' errors say, made fit for one line."""

_LONGEST_ERROR = 305


def last_line(text: str) -> str:
    """The last line that says something, where a traceback has its message; both ends of a long one."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else "no message"
    return line if len(line) <= _LONGEST_ERROR else f"{line[:100]} ... {line[-200:]}"


__all__ = ["last_line"]
