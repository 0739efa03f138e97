"""What errors of the system and of other packages say, made fit for one line."""

import errno
import os
from json import JSONDecodeError

NO_FILE = "no such file"

_LONGEST_ERROR = 305
"""Characters of a message that is shown whole: 100 of its beginning, 200 of its end, and " ... "."""


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something, or else the kind of error that it is."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def last_line(text: str) -> str:
    """The last line that says something, where a traceback has its message; both ends of a long one."""
    lines = [" ".join(line.split()) for line in text.splitlines() if line.strip()]
    line = lines[-1] if lines else "no message"
    return line if len(line) <= _LONGEST_ERROR else f"{line[:100]} ... {line[-200:]}"


def system_reason(error: OSError) -> str:
    """Why the system refused something, for a message that names the file in its own way."""
    if isinstance(error, FileNotFoundError) and error.strerror == os.strerror(errno.ENOENT):
        return NO_FILE
    return error.strerror or str(error) or type(error).__name__


def system_message(error: OSError) -> str:
    """The reason behind the name of the file, where the error has one."""
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    return f"{where}{system_reason(error)}"


def json_reason(error: JSONDecodeError) -> str:
    """What is wrong with one line of JSON, and where: "Expecting value at column 1"."""
    # Of text that does not end Python's own message ends with "at".
    return f"{error.msg.removesuffix(' at')} at column {error.colno}"
