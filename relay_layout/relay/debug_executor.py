"""``relay.debug_executor``: networks whose kernels are timed one by one, as ``tvm.contrib.debugger`` did.

Kernels compute several operators each: there are times of kernels, and no results of operators between.
"""

import csv
import io
import json
from dataclasses import dataclass
from typing import Any

from relay_layout.columns import columns
from relay_layout.relay.graph_executor import GraphModule, RuntimeModule
from relay_layout.relay.missing import refuser

__getattr__ = refuser(__name__, "tvm.contrib.debugger.debug_executor")

_REPEAT = 10
"""Runs that a profile takes the medians of."""

_OF_SINGLE_OPERATORS = ("debug_datum", "debug_get_output", "get_node_output", "run_individual_node")
_BETWEEN = (
    ": a kernel computes several operators, and nothing between them is kept; let the tensor be a result of "
    "the network as well, and time kernels by profile()"
)

_COLUMNS = ("Name", "Duration (us)", "Percent", "Operators")


@dataclass(frozen=True)
class Report:
    """Times of kernels in the order in which they run; those of loops after them, of all trips together.

    ``calls`` have TVM's column names, "Name", "Duration (us)" and "Percent" of all of them, and "Operators",
    what the kernel computes.
    """

    calls: tuple[dict[str, Any], ...]
    run_us: float
    """Microseconds of a whole run without observing its calls."""

    def table(self, sort: bool = True) -> str:
        """For people, those that take most first unless ``sort`` is False."""
        calls = sorted(self.calls, key=lambda call: -call["Duration (us)"]) if sort else self.calls
        rows = [
            [call["Name"], f"{call['Duration (us)']:.2f}", f"{call['Percent']:.2f}", call["Operators"]]
            for call in calls
        ]
        return columns([_COLUMNS, *rows, ["a whole run", f"{self.run_us:.2f}", "", ""]], right=(1, 2))

    def csv(self) -> str:
        """A line for each kernel after one of the names of columns."""
        text = io.StringIO()
        writer = csv.DictWriter(text, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.calls)
        return text.getvalue()

    def json(self) -> str:
        """An object with the kernels as ``calls``, and ``run_us``."""
        return json.dumps({"calls": self.calls, "run_us": self.run_us})

    def __str__(self) -> str:
        return self.table()


class GraphModuleDebug(GraphModule):
    """A network ready to run: ``GraphModuleDebug(library["debug_create"]("default", device), ...)``.

    Devices, graph and folder for dumps are taken for scripts that give them; nothing is written.
    """

    def __init__(
        self, module: RuntimeModule, device: Any = None, graph_json_str: Any = None, dump_root: Any = None
    ) -> None:
        super().__init__(module)

    def __getattr__(self, name: str) -> Any:
        told = _BETWEEN if name in _OF_SINGLE_OPERATORS else ""
        raise AttributeError(f"GraphModuleDebug has no attribute '{name}'{told}", name=name)

    def profile(self, collectors: Any = None, **input_dict: Any) -> Report:
        """Times of the kernels with the inputs that were set, and others by name.

        InputError where an input was not set, for a GPU's code, and for a network on a board.
        ValueError for ``collectors``, of which there are none.
        """
        if collectors:
            raise ValueError("profile: there are no collectors; leave them out")
        self.set_input(**input_dict)
        measured, operators = self.module.profile(_REPEAT)
        found = (*measured.calls, *measured.calls_of_bodies)
        total = sum(taken for _, taken in found)
        # Kernels that take as long as each other have all times taken off with that of observing.
        shares = [100 * (taken / total if total else 1 / len(found)) for _, taken in found]
        rows = [
            (name, taken, share, operators.get(name, ""))
            for (name, taken), share in zip(found, shares, strict=True)
        ]
        return Report(tuple(dict(zip(_COLUMNS, row, strict=True)) for row in rows), measured.run_us)

    def run_individual(
        self, number: int = 1, repeat: int = 1, min_repeat_ms: float = 0, **options: Any
    ) -> list[float]:
        """Seconds of each kernel, medians of as many runs as are asked for; other options mean nothing."""
        measured, _ = self.module.profile(max(1, number * repeat))
        return [taken / 1e6 for _, taken in (*measured.calls, *measured.calls_of_bodies)]


def create(graph_json_str: str, libmod: Any, device: Any, dump_root: Any = None) -> GraphModuleDebug:
    """The module of what older ``relay.build`` returned; the first only describes."""
    json.loads(graph_json_str)
    return GraphModuleDebug(libmod["default"](device), device, graph_json_str, dump_root)
