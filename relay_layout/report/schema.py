"""The data of a report: plain values that JSON can hold as they are.

Times are in microseconds, sizes in bytes, layouts in the letters of the convolutions around a tensor.
"""

from typing import Any, TypedDict

SCHEMA = 2
KIND = "relay-layout report"


class Sides(TypedDict):
    """Layouts of the operands and of the results."""

    operands: list[str]
    results: list[str]


class OtherWay(Sides):
    """One way in which an operator could run, the rest of the function as it was chosen.

    ``more_us`` is what the whole function would take more, ``more_transforms`` how many transforms more it
    would have; where neighbours followed, it could be less.
    """

    microseconds: float
    chosen: bool
    more_us: float
    more_transforms: int


class Refused(TypedDict):
    """A layout that a neighbour of an operator could write or read, and why the operator cannot."""

    value: str
    layout: str
    reason: str


class Node(TypedDict):
    """An input ("input"), an operator ("operator") or an output ("output") of "main" or of a body.

    ``before`` are the layouts of the imported module, ``after`` the chosen ones. ``how`` and ``reason`` are
    ``kind`` and ``reason`` of :class:`relay_layout.explanation.facts.OperatorFact`; ``moves_nothing`` marks
    an operator whose result is its operand; ``call`` is the place of the call that computes it, None where
    nothing runs.
    """

    type: str
    name: str
    operator: str
    shape: list[int | str]
    dtype: str
    operand_names: list[str]
    before: Sides
    after: Sides
    how: str
    reason: str
    moves_nothing: bool
    microseconds: float
    alternatives: list[OtherWay]
    refused: list[Refused]
    call: int | None


class Edge(TypedDict):
    """A tensor from one node to another, places in ``nodes``; ``transform`` is the one on its way."""

    source: int
    target: int
    transform: int | None


class Transform(TypedDict):
    """A transform left to run; ``readers`` share it.

    ``priced`` says where its microseconds come from
    (:class:`relay_layout.explanation.facts.TransformFact`), ``call`` is the place of the call that does it,
    None where that cannot be told.
    """

    value: str
    source: str
    target: str
    bytes: int
    microseconds: float
    priced: str
    readers: list[str]
    call: int | None


class Call(TypedDict):
    """One call of a kernel, in the order in which they run.

    ``operators`` are what it computes, ``operator`` and ``workload`` what its loops are for ("" and None for
    plain vector loops), ``source`` where they come from (:class:`relay_layout.lower.schedule.Kernel`),
    ``multiplied`` the dtype of the data they take ("" of others), ``gigaflop`` the work of the direct
    convolution, ``bytes`` what it reads and writes, ``estimate_us`` what it takes by the tuning records or
    the estimate, ``measured_us`` all calls of a run by a profile. Those of bodies follow those of "main";
    ``runs`` is how often a run makes the call: once in "main", in bodies as a profile says.
    """

    function: str
    operators: list[str]
    operator: str
    source: str
    workload: dict[str, Any] | None
    algorithm: str
    knobs: dict[str, Any] | None
    multiplied: str
    gigaflop: float | None
    bytes: int
    estimate_us: float | None
    measured_us: float | None
    runs: int | None


class Tensor(TypedDict):
    """A tensor in a storage, from its first call to its last."""

    shape: list[int]
    dtype: str
    offset: int
    bytes: int
    first: int
    last: int


class Storage(TypedDict):
    """One allocation."""

    bytes: int
    tensors: list[Tensor]


class Memory(TypedDict):
    """Weights and intermediate results; ``tensor_bytes`` is what those would take if none shared memory."""

    weight_bytes: int
    storage_bytes: int
    tensor_bytes: int
    storages: list[Storage]


class Profile(TypedDict):
    """What a profile was taken with; ``run_us`` is the median of whole runs without timers."""

    cpu: str
    threads: int
    repeat: int
    run_us: float
    peak_gflops: float


class Solver(TypedDict):
    """How the choice was found."""

    status: str
    objective_us: float
    seconds: float


class Target(TypedDict):
    """The report of one target."""

    name: str
    target: dict[str, Any]
    threads: int | None
    solver: Solver
    compile_seconds: float
    nodes: list[Node]
    edges: list[Edge]
    transforms: list[Transform]
    calls: list[Call]
    memory: Memory
    profile: Profile | None


class Report(TypedDict):
    """A whole report."""

    kind: str
    schema: int
    model: str
    relay_layout: str
    tvm: str
    targets: list[Target]
