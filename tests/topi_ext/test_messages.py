"""What errors of the system and of other packages say."""

from pathlib import Path

import pytest

from topi_ext.messages import first_line, system_message, system_reason


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError) as raised:
        Path("absent").read_bytes()
    assert system_message(raised.value) == "absent: no such file"


def test_other_reasons_are_the_system_s_own() -> None:
    assert system_message(PermissionError(13, "Permission denied", "model")) == "model: Permission denied"
    assert system_reason(FileNotFoundError(2, "the folder a does not exist")) == "the folder a does not exist"


def test_errors_without_a_number() -> None:
    assert system_message(OSError("timed out")) == "timed out"
    assert system_reason(OSError()) == "OSError"


def test_names_that_are_bytes() -> None:
    assert system_message(PermissionError(13, "Permission denied", b"model")) == "model: Permission denied"


def test_the_first_line_of_a_message() -> None:
    assert first_line(ValueError("\n  of two\nlines")) == "of two"
    assert first_line(KeyboardInterrupt()) == "KeyboardInterrupt"
