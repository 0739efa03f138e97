"""From a script's bytes to those of the ported script."""

from dataclasses import dataclass

from relay_layout.port.bases import Bases
from relay_layout.port.calls import port_calls
from relay_layout.port.imports import port_imports
from relay_layout.port.module_functions import port_module_functions
from relay_layout.port.names import HasName
from relay_layout.port.references import port_references
from relay_layout.port.script import NotCarried, Script
from relay_layout.port.source import Source
from relay_layout.port.surface import has_name as ask_packages
from relay_layout.port.target_strings import port_target_strings


@dataclass(frozen=True)
class Ported:
    """A ported script.

    source: its bytes, in the encoding it had.
    text: the same as text.
    changed: how many lines of the old script were touched.
    not_carried: what a person must look at, in the script's order.
    """

    source: bytes
    text: str
    changed: int
    not_carried: tuple[NotCarried, ...]


def port_source(source: bytes, name: str = "script", has_name: HasName = ask_packages) -> Ported:
    """Rewrites a script. ``name`` stands in errors; ``has_name`` says which names there are today.

    Porting a ported script changes nothing.

    Raises InputError for what is no Python.
    """
    parsed = Source(source, name)
    script = Script(parsed, has_name)
    bases = Bases(script)
    port_imports(script)
    port_calls(script, bases)
    port_module_functions(script)
    port_target_strings(script, bases)
    port_references(script, bases)
    bases.add_imports()
    ported = parsed.applied(script.edits)
    text = ported.decode(parsed.encoding)
    return Ported(ported, text, parsed.changed_lines(script.edits), tuple(script.notes))
