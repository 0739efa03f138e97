"""Memory that "main" takes instead of allocating it."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_layout.artifact.functions import DESTINATIONS, OUTPUTS, WORKSPACE
from relay_layout.lower.as_pass import as_pass
from relay_layout.lower.memory.plan import planned_memory
from relay_layout.lower.memory.workspace import lift_workspace
from relay_layout.lower.passes import machine_passes, memory_passes
from relay_layout.targets import resolve_target
from tests.relax_modules import main_of, module_giving

op = relax.op
PLANNED = [
    relax.transform.LegalizeOps(),
    relax.transform.RewriteDataflowReshape(),
    relax.transform.ToNonDataflow(),
    relax.transform.RemovePurityChecking(),
    relax.transform.CallTIRRewrite(),
    relax.transform.StaticPlanBlockMemory(),
    relax.transform.LowerAllocTensor(),
]


def module_of(emit: Callable[[relax.BlockBuilder, relax.Var], relax.Expr], *shape: object) -> tvm.IRModule:
    data = relax.Var("data", relax.TensorType(shape, "float32"))
    with main_of(data) as builder:
        builder.result = emit(builder, data)
    return builder.finalize()


def lifted(module: tvm.IRModule) -> tvm.IRModule:
    with tvm.target.Target("llvm"):
        return lift_workspace(tvm.transform.Sequential(PLANNED)(module))


def activations(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    for operator in (op.exp, op.nn.relu, op.negative, op.abs):
        data = builder.emit(operator(data))
    return data


def halves(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
    """Two results of one kernel, the first of which is read again."""
    both = builder.emit(op.split(data, 2))
    first, second = (builder.emit(relax.TupleGetItem(both, index)) for index in range(2))
    return relax.Tuple([first, second, builder.emit(op.exp(first))])


def allocations(function: relax.Function) -> list[str]:
    return [
        line.split(" = ")[1].split("(")[0] for line in function.script().splitlines() if ".alloc_" in line
    ]


def shapes(function: relax.Function) -> list[list[int]]:
    return [[int(extent) for extent in parameter.ty.shape] for parameter in function.params]


def test_main_allocates_nothing() -> None:
    module = lifted(module_of(activations, 2, 3))
    assert allocations(module["main"]) == []
    assert shapes(module["main"]) == [[2, 3]] * 5
    # Three intermediate results share two storages; the output has its own.
    assert allocations(module[WORKSPACE]).count("R.memory.alloc_storage") == 2
    assert allocations(module[WORKSPACE]).count("R.memory.alloc_tensor") == 3
    assert allocations(module[DESTINATIONS]) == ["R.memory.alloc_storage", "R.memory.alloc_tensor"]


def test_memory_of_outputs_comes_behind_the_inputs() -> None:
    """And in front of the weights, which are bound once."""
    builder = relax.BlockBuilder()
    data, weight = (
        relax.Var(name, relax.TensorType(shape, "float32"))
        for name, shape in (("data", (2, 3)), ("weight", (3,)))
    )
    with builder.function("main", [data, weight], attrs={"num_input": 1}):
        with builder.dataflow():
            scaled = builder.emit(op.multiply(data, weight))
            outputs = [builder.emit_output(op.sum(scaled, axis=1)), builder.emit_output(op.exp(scaled))]
        builder.emit_func_output(relax.Tuple(outputs))
    main = lifted(builder.finalize())["main"]
    assert shapes(main) == [[2, 3], [2], [2, 3], [3], [2, 3]]
    assert [parameter.name for parameter in main.params].index("weight") == 3


def test_planned_memory_tells_outputs_from_inputs() -> None:
    """Of a module whose weights were not lifted, too: all parameters that it had are inputs."""
    *_, output = planned_memory(lifted(module_of(activations, 2, 3)))
    (tensor,) = output.tensors
    assert (tensor.shape, tensor.first, tensor.last) == ((2, 3), 3, 3)


def test_a_view_of_an_output_is_made_in_each_call() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        return builder.emit(op.reshape(builder.emit(op.exp(data)), (3, 2)))

    module = lifted(module_of(emit, 2, 3))
    assert module["main"].script().count("R.reshape(") == 1
    assert allocations(module[DESTINATIONS]) == ["R.memory.alloc_storage", "R.memory.alloc_tensor"]
    assert allocations(module[WORKSPACE]) == []


def test_an_output_that_shares_its_storage_is_no_memory_of_the_callers() -> None:
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((2, 3), "float32"))
    with builder.function("main", [data], attrs={"relax.force_pure": True}):
        storage = builder.emit(op.memory.alloc_storage(relax.ShapeExpr([64]), 0, "global", "uint8"))
        tensors = [
            builder.emit(op.memory.alloc_tensor(storage, offset, relax.ShapeExpr((2, 3)), "float32"))
            for offset in (0, 32)
        ]
        builder.emit_func_output(relax.Tuple(tensors))
    module = lift_workspace(builder.finalize())
    assert allocations(module[DESTINATIONS]) == []
    assert len(allocations(module[WORKSPACE])) == 3


def test_views_are_made_once() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        flat = builder.emit(op.reshape(builder.emit(op.exp(data)), (3, 2)))
        return builder.emit(op.negative(flat))

    module = lifted(module_of(emit, 2, 3))
    assert "reshape" not in module["main"].script()
    assert module[WORKSPACE].script().count("R.reshape(") == 1
    assert shapes(module["main"]) == [[2, 3], [3, 2], [2, 3], [3, 2]]


def test_a_view_of_an_input_stays() -> None:
    module = lifted(module_of(lambda builder, data: builder.emit(op.reshape(data, (3, 2))), 2, 3))
    assert module["main"].script().count("R.reshape(") == 1
    assert shapes(module["main"]) == [[2, 3]]


def test_what_depends_on_a_shape_of_the_input_stays() -> None:
    rows = tvm.tirx.Var("rows", "int64")

    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        total = builder.emit(op.sum(builder.emit(op.exp(data))))
        return relax.Tuple([total, builder.emit(op.negative(data))])

    module = lifted(module_of(emit, rows, 3))
    assert len(allocations(module["main"])) == 4
    assert [len(parameter.ty.shape) for parameter in module["main"].params] == [2, 0]
    assert allocations(module[WORKSPACE]) == []
    assert len(allocations(module[DESTINATIONS])) == 2


def test_a_storage_that_main_still_needs_stays() -> None:
    """Known is the storage, unknown the shape of one of the two tensors in it."""
    rows = tvm.tirx.Var("rows", "int64")
    builder = relax.BlockBuilder()
    data = relax.Var("data", relax.TensorType((rows, 3), "float32"))
    with builder.function("main", [data], attrs={"relax.force_pure": True}):
        both, own = (
            builder.emit(op.memory.alloc_storage(relax.ShapeExpr([64]), 0, "global", "uint8"))
            for _ in range(2)
        )
        tensors = [
            builder.emit(op.memory.alloc_tensor(storage, 0, relax.ShapeExpr(shape), "float32"))
            for storage, shape in ((both, (2, 3)), (both, (rows, 3)), (own, (4,)))
        ]
        builder.emit_func_output(relax.Tuple(tensors))
    module = lift_workspace(builder.finalize())
    assert allocations(module["main"]) == ["R.memory.alloc_storage", *["R.memory.alloc_tensor"] * 2]
    assert allocations(module[DESTINATIONS]) == ["R.memory.alloc_storage", "R.memory.alloc_tensor"]
    assert allocations(module[WORKSPACE]) == []


def test_nothing_to_allocate() -> None:
    data = relax.Var("data", relax.TensorType((2,), "float32"))
    module = lifted(module_giving(data, data))
    assert allocations(module[WORKSPACE]) == [] and len(module["main"].params) == 1


def test_runs_in_the_virtual_machine() -> None:
    planned = [
        relax.transform.LegalizeOps(),
        *memory_passes(resolve_target("native")),
        as_pass(lift_workspace),
    ]
    passes = tvm.transform.Sequential([*planned, *machine_passes()])
    executable = relax.build(module_of(activations, 2, 3), "llvm", relax_pipeline=passes)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    workspace = [*machine[DESTINATIONS](), *machine[WORKSPACE]()]
    for seed in range(2):
        image = np.random.default_rng(seed).standard_normal((2, 3), dtype="float32")
        output = machine["main"](tvm.runtime.tensor(image), *workspace)
        np.testing.assert_allclose(output.numpy(), np.exp(image), rtol=1e-6)


@pytest.mark.parametrize(
    ("emit", "expected"),
    [
        pytest.param(activations, [[0, 2, 3]], id="as it is"),
        pytest.param(
            lambda builder, data: builder.emit(op.reshape(builder.emit(op.exp(data)), (3, 2))),
            [[0, 3, 2]],
            id="a view",
        ),
        pytest.param(
            lambda builder, data: builder.emit(op.reshape(data, (3, 2))), [[]], id="a view of an input"
        ),
        pytest.param(lambda builder, data: op.sum(data), [[0]], id="a scalar"),
        pytest.param(
            lambda builder, data: relax.Tuple([data, op.exp(data), op.sum(data)]),
            [[], [0, 2, 3], [1]],
            id="an input among them",
        ),
        pytest.param(halves, [[0, 1, 3], [1, 1, 3], [2, 1, 3]], id="several of one kernel"),
    ],
)
def test_where_outputs_lie(
    emit: Callable[[relax.BlockBuilder, relax.Var], relax.Expr], expected: list[list[int]]
) -> None:
    assert lies_in(module_of(emit, 2, 3)) == expected


def test_an_output_that_comes_twice_lies_in_the_memory_of_the_first() -> None:
    def emit(builder: relax.BlockBuilder, data: relax.Var) -> relax.Expr:
        once = builder.emit(op.exp(data))
        return relax.Tuple([once, once])

    assert lies_in(module_of(emit, 2, 3)) == [[0, 2, 3], []]


def lies_in(module: tvm.IRModule) -> list[list[int]]:
    """What OUTPUTS gives."""
    passes = tvm.transform.Sequential([*machine_passes()])
    machine = relax.VirtualMachine(relax.build(lifted(module), "llvm", relax_pipeline=passes), tvm.cpu())
    return [list(shape) for shape in machine[OUTPUTS]()]
