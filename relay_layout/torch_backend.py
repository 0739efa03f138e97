"""A backend of ``torch.compile``: ``torch.compile(model, backend="relay_layout")``.

Found by torch through the entry point ``torch_dynamo_backends`` of this package.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import torch

from relay_layout.compiler import compile
from relay_layout.errors import ModelError
from relay_layout.frontend import from_torch
from relay_layout.frontend.torch.arguments import written
from relay_layout.frontend.torch.program import exported
from relay_layout.runtime.session import Session

_Weight = tuple[torch.Tensor, int, int]
"""A parameter or a buffer, which of its versions it was, and where that lay."""


def relay_layout(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., tuple[torch.Tensor, ...]]:
    """The function that torch calls in the place of ``graph``; ``options`` are those of :func:`.compile`.

    Parameters and buffers become constants. Each new shape and memory order of the other inputs is compiled
    when it first comes, and everything anew once a parameter or a buffer has changed. Memory formats are the
    program's: outputs have the strides that PyTorch gives them, but for gaps, as a slice has them.

    What the graph writes to, such as caches and the statistics of batch norms in training mode, is no
    constant, and is written to after each call. An output that is a view of it in PyTorch is a tensor of its
    own here.

    ModelError for a graph that is to be trained, for tensors that are not on the CPU, for tensors in the
    memory of one that is written to, and for whatever :func:`.from_torch` refuses.
    """
    # Shapes are those of the calls; those of the example may be symbolic.
    return _Compiled(graph, dict(options or {}))


class _Compiled:
    """A graph, with a session for each kind of inputs that it was called with."""

    def __init__(self, graph: torch.fx.GraphModule, options: Mapping[str, Any]) -> None:
        self._graph = _with_autocasts(graph)
        self._numbers = _read_as_numbers(graph)
        self._types = _types_of_outputs(graph)
        self._options = options
        self._sessions: dict[tuple[Any, ...], Session] = {}
        self._weights: list[_Weight] = []
        self._written: frozenset[int] = frozenset()

    def __call__(self, *given: Any) -> tuple[torch.Tensor, ...]:
        _check(given)
        arguments = [
            argument.item() if number and isinstance(argument, torch.Tensor) else argument
            for argument, number in zip(given, self._numbers, strict=True)
        ]
        fixed = self._fixed(arguments)
        key = self._key(arguments, fixed)  # which may forget sessions
        session = self._sessions.get(key)
        if session is None:
            session = self._new_session(arguments)
            fixed = self._fixed(arguments)
        for place in self._written:
            _check_apart(place, arguments)
        wide = [_wide(argument) for argument, kept in zip(arguments, fixed, strict=True) if not kept]
        outputs = session.run(dict(zip((spec.name for spec in session.inputs), wide, strict=True)))
        found = [torch.from_numpy(array) for array in outputs.values()]
        results = found[: len(found) - len(self._written)]
        for place, value in zip(sorted(self._written), found[len(results) :], strict=True):
            arguments[place].copy_(_in_type(value, arguments[place].dtype))
        return tuple(map(_in_type, results, self._types))

    def _new_session(self, arguments: Sequence[Any]) -> Session:
        fixed = self._fixed(arguments)
        program = self._exported(arguments, fixed)
        places = _written(program, fixed)
        if places:
            self._written |= places
            fixed = self._fixed(arguments)
            program = self._exported(arguments, fixed)
        key = self._key(arguments, fixed)
        session = self._sessions[key] = self._compiled(program)
        return session

    def _exported(self, arguments: Sequence[Any], fixed: Sequence[bool]) -> Any:
        program = _Program(self._graph, arguments, fixed, self._written).eval()
        wide = [_wide(argument) for argument, kept in zip(arguments, fixed, strict=True) if not kept]
        # Export asks of a view what its base is like, by guards that it cannot check itself.
        given = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in wide]
        return exported(torch, program, given, None, "torch program")

    def _compiled(self, program: Any) -> Session:
        compiled = compile(from_torch(program), **self._options)
        return compiled.session(threads=self._options.get("threads"), permute=True)

    def _fixed(self, arguments: Sequence[Any]) -> list[bool]:
        """Which arguments are none of a call, and become constants."""
        return [
            _is_fixed(argument) and place not in self._written for place, argument in enumerate(arguments)
        ]

    def _key(self, arguments: Sequence[Any], fixed: Sequence[bool]) -> tuple[Any, ...]:
        """What a session is compiled for; forgets all of them where weights have changed."""
        weights = [
            (argument, argument._version, argument.data_ptr())
            for argument, kept in zip(arguments, fixed, strict=True)
            if kept and isinstance(argument, torch.Tensor)
        ]
        if not _same(weights, self._weights):
            self._sessions, self._weights = {}, weights
        tensors = [argument for argument, kept in zip(arguments, fixed, strict=True) if not kept]
        numbers = [argument for argument in arguments if not isinstance(argument, torch.Tensor)]
        return (*numbers, *((tensor.shape, tensor.stride(), tensor.dtype) for tensor in tensors))


class _Program(torch.nn.Module):
    """A graph with some of its arguments held as buffers, a function of the others.

    Others, and results, are float32 where the graph has bfloat16, which numpy lacks, and real where it has
    complex numbers, whose parts are the last dimension. Arguments at the places of ``written`` are among the
    others, and what the graph leaves in them comes behind its results.
    """

    def __init__(
        self,
        graph: torch.fx.GraphModule,
        arguments: Sequence[Any],
        fixed: Sequence[bool],
        written: Set[int],
    ) -> None:
        super().__init__()
        self._graph = graph
        self._held: list[Any] = []
        for place, (argument, kept) in enumerate(zip(arguments, fixed, strict=True)):
            if kept and isinstance(argument, torch.Tensor):
                self.register_buffer(f"held_{place}", argument.detach())
            self._held.append(argument if kept and not isinstance(argument, torch.Tensor) else None)
        self._fixed = list(fixed)
        self._written = sorted(written)
        self._dtypes = [argument.dtype for argument, kept in zip(arguments, fixed, strict=True) if not kept]

    def forward(self, *given: torch.Tensor) -> Any:
        remaining = iter([*map(_in_type, given, self._dtypes)])
        arguments = [
            getattr(self, f"held_{place}", held) if kept else next(remaining)
            for place, (held, kept) in enumerate(zip(self._held, self._fixed, strict=True))
        ]
        for place in self._written:
            arguments[place] = arguments[place].clone()
        results = _listed(self._graph(*arguments))
        return tuple(map(_wide, (*results, *(arguments[place] for place in self._written))))


def _listed(results: Any) -> Sequence[Any]:
    return results if isinstance(results, tuple | list) else (results,)


def _wide(value: Any) -> Any:
    """Tensors of bfloat16 as float32, which has all of its numbers, and complex ones by their parts."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj())
    return value.float() if value.dtype == torch.bfloat16 else value


def _in_type(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    """What :func:`_wide` made of a tensor in its type again; None is one that it leaves as it is."""
    if dtype is not None and dtype.is_complex:
        return torch.view_as_complex(tensor)
    return tensor if dtype is None else tensor.to(dtype)


def _types_of_outputs(graph: torch.fx.GraphModule) -> list[torch.dtype | None]:
    """The types of the outputs that are not None, which None stands for where Dynamo does not say them."""
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    given = [one for one in _listed(output.args[0]) if one is not None]
    examples = [getattr(one, "meta", {}).get("example_value") for one in given]
    return [getattr(example, "dtype", None) for example in examples]


def _with_autocasts(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The graph, changed in place, so that export sees the types that autocast gives.

    Export only notes the functions by which Dynamo begins and ends autocast, and does not call them.
    """
    modes = torch.amp.autocast_mode
    replaced = {modes._enter_autocast: _enter_autocast, modes._exit_autocast: _exit_autocast}
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.target = replaced.get(node.target, node.target)
    graph.recompile()
    return graph


def _enter_autocast(*arguments: Any) -> torch.autocast:
    mode = torch.autocast(*arguments)
    mode.__enter__()
    return mode


def _exit_autocast(mode: torch.autocast) -> None:
    mode.__exit__(None, None, None)


def _read_as_numbers(graph: torch.fx.GraphModule) -> list[bool]:
    """Which inputs are only asked for their one element, as a dynamic graph's epsilon is; changes ``graph``.

    Such an input becomes that number, since nothing could be compiled for one that is not known.
    """
    inputs = graph.graph.find_nodes(op="placeholder")
    found = []
    for node in inputs:
        users = list(node.users)
        found.append(bool(users) and all(user.target == "item" for user in users))
        for user in users if found[-1] else ():
            user.replace_all_uses_with(node)
            graph.graph.erase_node(user)
    graph.recompile()
    return found


def _written(program: Any, fixed: Sequence[bool]) -> frozenset[int]:
    """The places of arguments that an exported :class:`_Program` writes to."""
    given = [place for place, kept in enumerate(fixed) if not kept]
    places = dict(zip(program.graph_signature.user_inputs, given, strict=True))
    places |= {f"held_{place}": place for place, kept in enumerate(fixed) if kept}
    return frozenset(places[name] for name in written(program))


def _check_apart(place: int, arguments: Sequence[Any]) -> None:
    """ModelError where another argument lies in the memory of the one at ``place``, which is written to."""
    own = _memory(arguments[place])
    for other, argument in enumerate(arguments):
        held = _memory(argument) if isinstance(argument, torch.Tensor) else range(0)
        if other != place and max(own.start, held.start) < min(own.stop, held.stop):
            raise ModelError(
                "this graph writes to a tensor that shares its memory with another one that it is given; "
                "give it a clone() of one of them"
            )


def _memory(tensor: torch.Tensor) -> range:
    """The addresses between which a tensor lies."""
    if not tensor.numel():
        return range(0)
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    elements = 1 + sum((extent - 1) * stride for extent, stride in steps)
    return range(tensor.data_ptr(), tensor.data_ptr() + elements * tensor.element_size())


def _is_fixed(argument: Any) -> bool:
    """Whether an argument of a graph is none of a call: a parameter, a buffer, or the extent of a tensor."""
    if not isinstance(argument, torch.Tensor):
        return True
    # Dynamo marks what belongs to a module.
    return isinstance(argument, torch.nn.Parameter) or hasattr(argument, "_dynamo_static_input_type")


def _same(weights: Sequence[_Weight], before: Sequence[_Weight]) -> bool:
    return len(weights) == len(before) and all(
        one[0] is other[0] and one[1:] == other[1:] for one, other in zip(weights, before, strict=True)
    )


def _check(arguments: Sequence[Any]) -> None:
    tensors = [argument for argument in arguments if isinstance(argument, torch.Tensor)]
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        raise ModelError(
            "relay_layout compiles for inference, and this graph records gradients; call it under "
            "torch.no_grad(), or have its parameters not require them"
        )
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise ModelError(
                f"relay_layout's torch.compile backend takes tensors on the CPU, not on {tensor.device}"
            )
