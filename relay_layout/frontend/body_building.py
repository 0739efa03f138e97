"""Functions for what runs as often as the data say, written while the function around them is.

What a body reads of the function around it becomes a parameter: each tensor, and one shape that holds every
extent that is known outside.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import relax, tirx
from tvm_ffi import structural_map

from relay_layout.bodies import BODY, STEP, kind_of, parts_of, run_by, unused_name
from relay_layout.frontend.extents.counts import Counts
from relay_layout.ir import as_extent


@dataclass
class Body:
    """A function under way: its own parameters, what it gives, and once it ended, all that it does."""

    parameters: Sequence[relax.Var]
    result: Any = None
    whole: Any = None

    def captured(self) -> tuple[list[relax.Var], list[tirx.Var]]:
        """The tensors and the extents that are read of what is outside."""
        own = relax.Function(list(self.parameters), self.whole)
        free = relax.analysis.free_vars(own)
        # Extents that are read as numbers are free, too; each comes once, with the shape.
        outside = [variable for variable in free if isinstance(variable.ty, relax.TensorType)]
        whole = relax.Function([*self.parameters, *outside], self.whole)
        symbols = dict.fromkeys(relax.analysis.free_symbolic_vars(whole))
        # Those that the types of parameters alone define may be expressions of others, and unknown in a trip.
        for variable in outside:
            for extent in getattr(getattr(variable.ty, "shape", None), "values", None) or ():
                if not isinstance(as_extent(extent), int):
                    symbols.update(dict.fromkeys(tirx.analysis.undefined_vars(extent)))
        return outside, list(symbols)


@dataclass(eq=False)
class Aside:
    """What was emitted to no function yet, and the extents that were computed for it."""

    bindings: list[relax.Binding] = field(default_factory=list)
    computed: list[tuple[Any, tirx.Var]] = field(default_factory=list)


@dataclass
class Bodies:
    """The bodies of one module; ``builder`` writes the functions around them."""

    builder: Any
    counts: Counts
    functions: dict[str, relax.Function] = field(default_factory=dict)
    _names: set[str] = field(default_factory=set)

    def name(self, wanted: str) -> str:
        """A name for a loop or a choice, ``wanted`` with a number if another has it."""
        return unused_name(wanted, self._names)

    @contextmanager
    def inside(self, parameters: Sequence[relax.Var]) -> Iterator[Body]:
        """What is emitted meanwhile goes to a function of ``parameters``; :meth:`give` ends it.

        Bodies that are added meanwhile are forgotten where it is not ended.
        """
        body = Body(parameters)
        before = self._added()
        self.builder.begin_scope(list(parameters))
        self.builder._begin_dataflow_block()
        try:
            with self.counts.inside():
                yield body
        finally:
            block = self.builder._end_block()
            if body.result is not None:
                body.whole = self.builder.normalize(relax.SeqExpr([block], body.result))
            self.builder.end_scope()
            if body.result is None:
                self._names, self.functions = before

    @contextmanager
    def aside(self) -> Iterator[Aside]:
        """What is emitted meanwhile goes to no function, until :meth:`emit` is given it.

        Bodies that are added meanwhile are forgotten where that ends in an exception.
        """
        found = Aside()
        before = self._added()
        self.builder._begin_dataflow_block()
        try:
            with self.counts.aside() as found.computed:
                yield found
        except BaseException:
            self._names, self.functions = before
            raise
        finally:
            found.bindings = list(self.builder._end_block().bindings)

    def emit(self, found: Aside) -> None:
        """Let the function under way do what was emitted aside."""
        for binding in found.bindings:
            self.builder.emit_normalized(binding)
        self.counts.read_again(found.computed)

    def loops(self) -> int:
        """How many loops there are so far, those that nothing runs in the end among them."""
        return sum(kind_of(function) == STEP for function in self.functions.values())

    def run_a_loop(self, names: Iterable[str]) -> bool:
        """Whether functions of these names are loops, or choices with a loop on one of their sides."""
        return any(
            kind_of(self.functions[part]) == STEP or self.run_a_loop(run_by(self.functions[part]))
            for name in names
            for part in parts_of(name, self.functions)
        )

    def _added(self) -> tuple[set[str], dict[str, relax.Function]]:
        return set(self._names), dict(self.functions)

    def give(self, results: Sequence[Any]) -> Any:
        """The tensors that the function under way gives."""
        return self.builder.emit_output(relax.Tuple(list(results)), name_hint="results")

    def add(
        self,
        name: str,
        kind: str,
        body: Body,
        captured: tuple[Sequence[relax.Var], Sequence[tirx.Var]],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Keep a body that ended, as a function of its parameters, the extents and the tensors captured."""
        outside, symbols = captured
        taken = {variable: relax.Var(str(variable.name), variable.ty) for variable in outside}
        sizes = [relax.Var("sizes", relax.ShapeType(list(symbols)))] if symbols else []
        inner = structural_map(body.whole, (relax.Var, lambda variable: taken.get(variable, variable)))
        parameters = [*body.parameters, *sizes, *taken.values()]
        function = relax.Function(parameters, inner, body.result.ty)
        copied = relax.utils.copy_with_new_vars(function)
        self.functions[name] = copied.with_attrs({BODY: kind, **(attributes or {})})

    @staticmethod
    def arguments(captured: tuple[Sequence[relax.Var], Sequence[tirx.Var]]) -> list[Any]:
        """What is captured, as it is handed to a body."""
        outside, symbols = captured
        return [*([relax.ShapeExpr(list(symbols))] if symbols else []), *outside]

    def added_to(self, module: tvm.IRModule) -> tvm.IRModule:
        """The module with the bodies that its "main" runs, or that those run."""
        pending = run_by(module["main"])
        kept: set[str] = set()
        while pending:
            for part in parts_of(pending.pop(), self.functions):
                if part not in kept:
                    kept.add(part)
                    pending += run_by(self.functions[part])
        # What was read in vain, and the side of a branch that is not due, may have added others.
        for name, function in self.functions.items():
            if name in kept:
                module[name] = function
        return module
