"""The least sizes of images that the windows of a network fit into."""

from tvm import relax, sym, tirx
from tvm_ffi import structural_map

from relay_layout.ir import bindings_of, operator_name, shape_of

_WINDOWED = ("nn.conv", "nn.max_pool", "nn.avg_pool")
"""How the names of operators begin whose results have no pixels, or fewer, where images are small."""

_LARGEST = 1 << 16


def window_bounds(function: relax.Function) -> dict[str, int]:
    """The least size of dimensions, by name, with which every result of a window has a pixel.

    Dimensions for which one is enough are left out, and extents that depend on several dimensions.
    """
    least: dict[str, int] = {}
    seen: set[str] = set()
    for binding in bindings_of(function):
        if not operator_name(binding.value).startswith(_WINDOWED):
            continue
        for extent in shape_of(binding.var) or ():
            if isinstance(extent, int) or str(extent) in seen:
                continue
            seen.add(str(extent))
            variables = list(tirx.analysis.undefined_vars(extent))
            if len(variables) == 1:
                name = str(variables[0].name)
                least[name] = max(least.get(name, 1), _least(extent, variables[0]))
    return {name: size for name, size in least.items() if size > 1}


def _least(extent: tirx.Expr, variable: tirx.Var) -> int:
    """The least value of a variable from which on ``extent`` is positive, as extents grow with it."""
    analyzer = sym.Analyzer()

    def is_positive(size: int) -> bool:
        number = tirx.const(size, str(variable.ty.dtype))
        value = analyzer.simplify(structural_map(extent, (tirx.Var, lambda _: number)))
        return not isinstance(value, tirx.IntImm) or int(value) > 0

    below, above = 0, 1
    while not is_positive(above) and above < _LARGEST:
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (below, middle) if is_positive(middle) else (middle, above)
    return above
