"""The example scripts before and after, and a fixed list of names to port them with."""

from pathlib import Path

from relay_layout.port.surface import has_name

FOLDER = Path(__file__).parents[2] / "data" / "port"
NAMES = sorted(path.name.removesuffix(".before") for path in FOLDER.glob("*.before"))

_LACKING = (
    "relay.ExprMutator",
    "relay.ExprVisitor",
    "relay.backend",
    "relay.bind_params_by_name",
    "relay.expr",
    "relay.function",
    "relay.op.nn.nn",
    "relay.op.op",
    "relay.parse",
    "relay.parser",
    "relay.quantize.realize",
    "relay.transform.DefuseOps",
)


def known(dotted: str) -> bool:
    """The real names of TVM, and all of Relay's but a few."""
    if dotted.partition(".")[0] == "relay":
        return not any(f"{dotted}.".startswith(f"{name}.") for name in _LACKING)
    return has_name(dotted)


def before(name: str) -> bytes:
    """The script for Relay."""
    return (FOLDER / f"{name}.before").read_bytes()


def after(name: str) -> bytes:
    """The ported script."""
    return (FOLDER / f"{name}.after").read_bytes()


def notes(name: str) -> list[str]:
    """What could not be carried, one line each."""
    path = FOLDER / f"{name}.notes"
    return path.read_text().splitlines() if path.exists() else []
