"""What tensors within a network hold while it runs on a dataset."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm
from tvm import relax

from relay_layout.errors import InputError, ModelError
from relay_layout.graph.border import input_names
from relay_layout.ir import function_attributes, simplify_bindings, with_main
from relay_layout.relay.build_module import build
from relay_layout.relay.params import as_array
from relay_layout.relay.quantize.ranges import Histogram
from relay_layout.runtime.session import Session


def observe(
    module: tvm.IRModule, tensors: Sequence[relax.Var], dataset: Iterable[Mapping[Any, Any]]
) -> list[Histogram]:
    """A histogram of each of the tensors of main, over all entries of a dataset, inputs by name.

    ModelError for an entry that does not fit, and where there is none.
    """
    main = module["main"]
    names = input_names(main)
    session = Session(build(_showing(module, tensors), "llvm").artifact)
    histograms = [Histogram() for _ in tensors]
    entries = 0
    for entry in dataset:
        given = {str(getattr(name, "name_hint", name)): as_array(array) for name, array in entry.items()}
        try:
            results = list(session.run({name: given[name] for name in names}).values())
            for histogram, values in zip(histograms, results, strict=True):
                histogram.add(values)
        except KeyError as error:
            raise ModelError(f"quantize: entry {entries} of the dataset has no input {error}") from None
        except (InputError, ValueError) as error:
            raise ModelError(f"quantize: entry {entries} of the dataset: {error}") from None
        entries += 1
    if not entries:
        raise ModelError("quantize: the dataset is empty; calibration takes at least one entry")
    return histograms


def _showing(module: tvm.IRModule, tensors: Sequence[relax.Var]) -> tvm.IRModule:
    """The network with these tensors as its results."""
    main = module["main"]
    places = {tensor: relax.Var(f"shown{place}", tensor.ty) for place, tensor in enumerate(tensors)}
    shown = [relax.VarBinding(places[tensor], tensor) for tensor in tensors]
    *blocks, last = main.body.blocks
    kind = relax.DataflowBlock if isinstance(last, relax.DataflowBlock) else relax.BindingBlock
    results = relax.Tuple(list(places.values()))
    body = relax.SeqExpr([*blocks, kind([*last.bindings, *shown])], results)
    attributes = function_attributes(main)
    attributes.pop("output_names", None)
    function = relax.Function(main.params, body, results.ty, main.is_pure).with_attrs(attributes)
    return simplify_bindings(with_main(module, function))
