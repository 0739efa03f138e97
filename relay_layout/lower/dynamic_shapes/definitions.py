"""Bindings behind the definitions of the extents that they use.

TVM orders groups of fused operators by the tensors that they read, and may so call a function whose result
has an extent before the ``match_cast`` that says what the extent is.
"""

from collections.abc import Iterable, Iterator

import tvm
from tvm import relax

from relay_layout.ir import with_body, with_main
from topi_ext.ir import nodes_of


def define_before_use(module: tvm.IRModule) -> tvm.IRModule:
    """The module with the bindings of "main" in their order, but definitions of extents before their uses."""
    main = module["main"]
    known = set(_variables([parameter.ty for parameter in main.params]))
    blocks = [_ordered(block, known) for block in main.body.blocks]
    if all(block is old for block, old in zip(blocks, main.body.blocks, strict=True)):
        return module
    return with_main(module, with_body(main, relax.SeqExpr(blocks, main.body.body)))


def _ordered(block: relax.BindingBlock, known: set[relax.Var]) -> relax.BindingBlock:
    """The block in order, or itself where it defines no extent; ``known`` gets what it defines."""
    definitions = {binding.var: binding for binding in block.bindings}
    casts = [binding for binding in block.bindings if isinstance(binding, relax.MatchCast)]
    for binding in casts:
        found = [extent for extent in _variables([binding.ty]) if extent not in known]
        definitions |= dict.fromkeys(found, binding)
        known.update(found)
    return type(block)(list(_by_need(block.bindings, definitions))) if casts else block


def _by_need(
    bindings: Iterable[relax.Binding], definitions: dict[relax.Var, relax.Binding]
) -> Iterator[relax.Binding]:
    """Each binding once, behind those that define what it uses."""
    done: set[relax.Var] = set()
    pending = list(reversed(list(bindings)))
    while pending:
        binding = pending.pop()
        if binding.var in done:
            continue
        needed = [definitions[name] for name in _used(binding) if name in definitions]
        missing = [other for other in needed if other.var not in done and not other.var.same_as(binding.var)]
        if missing:
            pending += [binding, *reversed(missing)]
            continue
        done.add(binding.var)
        yield binding


def _used(binding: relax.Binding) -> list[relax.Var]:
    """Variables of its value, and the extents of its result unless it defines them."""
    result = [] if isinstance(binding, relax.MatchCast) else [binding.var.ty]
    return _variables([binding.value, *result])


def _variables(parts: Iterable[object]) -> list[relax.Var]:
    return [variable for part in parts for variable in nodes_of(part, relax.Var)]
