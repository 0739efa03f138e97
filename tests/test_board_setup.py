"""What scripts/board_setup.sh says to wrong words, and on a machine that is no board."""

import platform
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "scripts" / "board_setup.sh"


def refused(*words: str) -> str:
    """The line on standard error; the status must be that of bad input."""
    done = subprocess.run(["sh", str(SCRIPT), *words], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr.removeprefix("board_setup.sh: ").rstrip("\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tracker"], "--tracker needs a value"),
        (["--tracker", "pi:9190"], "--tracker needs --key, the name that boards of this kind share"),
        (["--tracker", "pi", "--key", "k"], "--tracker: expected HOST:PORT, got pi"),
        (
            ["--port", "1"],
            "unknown option --port; there are --folder, --tracker, --key, --cores and --package",
        ),
    ],
)
def test_wrong_words(words: list[str], message: str) -> None:
    assert refused(*words) == message


@pytest.mark.skipif(platform.machine() == "aarch64", reason="this machine may be a board")
def test_a_machine_that_is_no_board(tmp_path: Path) -> None:
    folder = tmp_path / "board"
    machine = platform.machine()
    assert refused("--folder", str(folder)) == (
        f"this machine is {machine}; wheels of TVM need a 64-bit ARM system (aarch64)"
    )
    assert not folder.exists()
