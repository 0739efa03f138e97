"""PyTorch programs: memory formats keep their meaning, and what is declared reaches the manifest."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

import relay_layout  # noqa: E402
from relay_layout import models  # noqa: E402
from relay_layout.bench.onnx_to_torch.module import convert  # noqa: E402
from relay_layout.dim_orders import order_asked  # noqa: E402
from relay_layout.errors import InputError, ModelError  # noqa: E402
from tests.relay_layout.frontend.torch.harness import assert_agrees, session_of  # noqa: E402

LAST = torch.channels_last


class Formats(nn.Module):
    """Every operation that changes memory order alone, and one that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = self.convolution(x).relu()
        last = y.to(memory_format=LAST)
        first = last.contiguous()
        copied = first.clone(memory_format=LAST)
        doubled = copied.to(torch.float64, memory_format=torch.contiguous_format).to(torch.float32)
        filled = torch.empty_like(first, memory_format=LAST).fill_(2.0)
        ones = torch.ones_like(copied) + first
        return first, copied, doubled, filled, ones, copied.permute(0, 2, 3, 1), first.permute(0, 2, 3, 1)


class Strided(nn.Module):
    """The same elements of memory are others in another memory order."""

    def __init__(self, memory_format: torch.memory_format) -> None:
        super().__init__()
        self.memory_format = memory_format

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x + 1).contiguous(memory_format=self.memory_format).as_strided((4, 5), (6, 1), 3) * 2


def image(*shape: int, memory_format: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator).contiguous(memory_format=memory_format)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, LAST])
def test_memory_formats_keep_their_meaning(memory_format: torch.memory_format, tmp_path: Path) -> None:
    model, x = Formats().eval(), image(2, 3, 6, 5, memory_format=memory_format)
    session = session_of(model, tmp_path, (x,))
    assert_agrees(session, model, (x,))
    plain, last = (0, 1, 2, 3), (0, 2, 3, 1)
    assert session.inputs[0].dim_order == (last if memory_format is LAST else plain)
    assert [spec.dim_order for spec in session.outputs] == [
        plain,
        last,
        plain,
        last,
        last,
        plain,
        (0, 3, 1, 2),
    ]
    assert all(spec.declared for spec in (*session.inputs, *session.outputs))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, LAST])
def test_as_strided_reads_the_memory_of_the_program(
    memory_format: torch.memory_format, tmp_path: Path
) -> None:
    model, x = Strided(memory_format), image(1, 4, 3, 5)
    assert_agrees(session_of(model.eval(), tmp_path, (x,)), model, (x,))


def test_changes_of_order_stand_in_the_module() -> None:
    module = relay_layout.from_torch(Formats().eval(), (image(1, 3, 6, 5),))
    asked = [order_asked(binding.value) for block in module["main"].body.blocks for binding in block.bindings]
    assert [order for order in asked if order] == [
        (0, 2, 3, 1),
        (0, 1, 2, 3),
        (0, 2, 3, 1),
        (0, 1, 2, 3),
    ]
    assert tvm_ffi.structural_equal(tvm.script.from_source(module.script(show_meta=True)), module)


def test_stock_tvm_runs_the_module() -> None:
    model, x = Formats().eval(), image(1, 3, 6, 5)
    module = relay_layout.from_torch(model, (x,))
    executable = tvm.compile(module, tvm.target.Target({"kind": "llvm", "opt-level": 0}))
    outputs = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x.numpy()))
    for output, expected in zip(outputs, model(x), strict=True):
        np.testing.assert_allclose(output.numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_an_input_in_another_order_is_refused(tmp_path: Path) -> None:
    model, x = Formats().eval(), image(2, 3, 6, 5, memory_format=LAST)
    session = session_of(model, tmp_path, (x,))
    with pytest.raises(InputError) as raised:
        session.run({"x": x.contiguous()})
    assert str(raised.value).startswith(
        "input 'x': lies in memory in dim_order (0, 1, 2, 3), NCHW, expected dim_order (0, 2, 3, 1), NHWC; "
    )
    permissive = relay_layout.load(tmp_path / "program.rla", permute=True)
    assert_agrees(permissive, model, (x.contiguous(),))


def test_slices_declare_the_order_between_their_gaps(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            return x[:, ::2], x[:, :, 1:4], x[:, 0], x.expand(3, 2, 4, 6, 5)

    model, whole = Halves().eval(), image(2, 8, 6, 10, memory_format=LAST)
    x = whole[:, 1:5, :, ::2]
    session = session_of(model, tmp_path, (x,))
    for output, expected in zip(session.run({"x": x}).values(), model(x), strict=True):
        np.testing.assert_array_equal(output, expected.numpy())
    assert [spec.dim_order for spec in (*session.inputs, *session.outputs)] == [
        (0, 2, 3, 1),
        (0, 2, 3, 1),
        (0, 2, 3, 1),
        (0, 1, 2),
        (0, 1, 2, 3, 4),
    ]
    assert [x[:, ::2].dim_order(), x[:, :, 1:4].dim_order()] == [(0, 2, 3, 1)] * 2, "as PyTorch has it"


@pytest.mark.parametrize("order", [(0, 2, 3), (0, 2, 2, 1), (0, 1, 2, 3, 4)])
def test_a_dim_order_names_each_dimension_once(order: tuple[int, ...]) -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(nn.ReLU().eval(), (image(2, 3, 6, 5),), dim_orders={"input": order})
    assert str(raised.value) == (
        f"torch program: input 'input': dim_order {order} does not name each of its 4 dimensions once"
    )


def test_ambiguous_strides_are_decided_by_declaration(tmp_path: Path) -> None:
    """With one channel both orders fit the example; at run time the image may have more rows."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1)).eval()
    x = image(2, 1, 6, 5)
    assert session_of(model, tmp_path, (x,)).inputs[0].dim_order == (0, 1, 2, 3)
    session = session_of(model, tmp_path, (x,), dim_orders={"input": (0, 2, 3, 1)})
    assert session.inputs[0].dim_order == (0, 2, 3, 1)
    # It lies in either order, whatever PyTorch calls it.
    for given in (x, x.contiguous(memory_format=LAST)):
        assert_agrees(session, model, (given,))


def test_weights_in_channels_last(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(6, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 1)).to(memory_format=LAST).eval()
    x = image(2, 6, 7, 5)
    assert_agrees(session_of(model, tmp_path, (x,)), model, (x,))


def test_a_file_and_a_program(tmp_path: Path) -> None:
    model, x = Formats().eval(), image(2, 3, 6, 5, memory_format=LAST)
    program = torch.export.export(model, (x,), strict=False)
    torch.export.save(program, tmp_path / "model.pt2")
    for source in (program, tmp_path / "model.pt2"):
        relay_layout.compile(source).save(tmp_path / "model.rla")
        assert_agrees(relay_layout.load(tmp_path / "model.rla"), model, (x,))


def open_sizes() -> tuple[dict[int, Any]]:
    return ({0: torch.export.Dim("n"), 2: torch.export.Dim("h", min=4), 3: torch.export.Dim("w", min=4)},)


def test_open_batch_and_image_sizes(tmp_path: Path) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1)
    ).eval()
    x = image(2, 3, 8, 12, memory_format=LAST)
    session = session_of(model, tmp_path, (x,), dynamic_shapes=open_sizes())
    assert session.inputs[0].dim_order == (0, 2, 3, 1)
    for shape in ((2, 3, 8, 12), (1, 3, 16, 8), (5, 3, 10, 6)):
        assert_agrees(session, model, (image(*shape, memory_format=LAST),))


@pytest.mark.parametrize("layout", ["none", "NHWC"])
def test_open_height_of_a_fixed_width(tmp_path: Path, layout: str) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 1)).eval()
    sizes = ({2: torch.export.Dim("h", min=5)},)
    session = session_of(model, tmp_path, (image(2, 3, 8, 8),), dynamic_shapes=sizes, desired_layout=layout)
    for height in (5, 9):
        assert_agrees(session, model, (image(2, 3, height, 8),))


def test_sizes_beyond_those_of_the_export_are_refused(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 5, 1)).eval()
    sizes = ({0: torch.export.Dim("n", max=4), 2: torch.export.Dim("h", min=5)},)
    session = session_of(model, tmp_path, (image(2, 3, 8, 8),), dynamic_shapes=sizes)
    for shape in ((1, 3, 5, 8), (4, 3, 9, 8)):
        assert_agrees(session, model, (image(*shape),))
    for shape, words in (
        ((5, 3, 8, 8), r"dimension 0 \('\w+'\) is 5, the model was exported for sizes 0 to 4"),
        ((2, 3, 4, 8), r"dimension 2 \('\w+'\) is 4, the model was exported for sizes from 5 on"),
    ):
        with pytest.raises(InputError, match=f"^input 'input': {words}$"):
            session.run({"input": image(*shape)})


def test_given_shapes_fix_open_ones(tmp_path: Path) -> None:
    model, x = Formats().eval(), image(2, 3, 6, 5)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("n")},), strict=False)
    module = relay_layout.from_torch(program, input_shapes={"x": (4, 3, 6, 5)})
    assert [int(extent) for extent in module["main"].params[0].ty.shape] == [4, 3, 6, 5]
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(program, input_shapes={"x": (4, 3, 6, 6)})
    assert str(raised.value) == (
        "torch program: input 'x': dimension 3 is 5 in the file, not 6 as in the given shape 4,3,6,6"
    )


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Flexible(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return flex_attention(x, x, x)


class Decomposing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_exp(x)


class Factoring(nn.Module):
    """Ends where there are no factors, for which export keeps it in order."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.ldl_factor(x)[0]


class Writing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(1) * 2


class Narrowing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.to(torch.float8_e4m3fn).to(torch.float32)


class Counted(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x + 1, 3


class Optional(nn.Module):
    """Takes and gives what is no tensor as well."""

    def forward(
        self, scale: float, x: torch.Tensor, mask: torch.Tensor | None = None, twice: bool = False
    ) -> tuple[None, torch.Tensor]:
        factor = 2 * scale if twice else scale
        return None, x * factor if mask is None else x * mask


class Outside(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:1].as_strided((2, 3), (3, 1))


class Drawing(nn.Module):
    def __init__(self, draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.draw = draw

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.draw(x)


@pytest.mark.parametrize(
    "draw",
    [
        nn.functional.dropout2d,
        lambda x: x[torch.randperm(2)],
        lambda x: torch.multinomial(x, 2),
        lambda x: nn.functional.alpha_dropout(x, training=True),
    ],
)
def test_what_draws_at_random_is_refused(draw: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(Drawing(draw).eval(), (torch.rand(2, 3),))
    assert "\n" not in str(raised.value)
    assert str(raised.value).endswith(
        "draws random numbers, which is not supported; call eval() before export, "
        "or make the numbers an input"
    )


@pytest.mark.parametrize(
    ("model", "inputs", "words"),
    [
        (nn.ReLU().train(), (torch.zeros(2),), "the torch module is in training mode: call its eval() first"),
        (
            nn.ReLU().eval(),
            None,
            "a torch module needs example inputs, in a tuple: relay_layout.from_torch(module, (example,))",
        ),
        (
            nn.ReLU().eval(),
            torch.zeros(2),
            "a torch module needs example inputs, in a tuple: relay_layout.from_torch(module, (example,))",
        ),
        ({}, (torch.zeros(2),), "a dict is no torch program: give a module, an exported program or a"),
        (3, None, "a int is no torch program: give a module, an exported program or a .pt2 file"),
        (
            Counting().eval(),
            (torch.zeros(2),),
            "torch program: it writes to the buffer 'count' as it runs, which is not supported; call eval() "
            "before export, or make the buffer an input and an output",
        ),
        (
            torch.export.export(nn.Dropout(0.25).train(), (torch.zeros(2),)),
            None,
            "torch program: node 'native_dropout' drops at random, as in training; call eval() before export",
        ),
        (
            Decomposing().eval(),
            (torch.zeros(2, 2),),
            "torch program: no support for linalg_matrix_exp.default (node 'linalg_matrix_exp'); "
            "torch.onnx.export(dynamo=True) may write the module to ONNX by operators that are supported",
        ),
        (
            Factoring().eval(),
            (torch.eye(2),),
            "torch program: no support for linalg_ldl_factor_ex.default (node 'linalg_ldl_factor_ex'), ",
        ),
        (
            Writing().eval(),
            (torch.zeros(2),),
            "torch program: it writes to its input 'x', which is not supported; let it write to a clone() of",
        ),
        (
            nn.ReLU().eval(),
            (torch.quantize_per_tensor(torch.zeros(2), 0.25, 2, torch.quint8),),
            "torch program: input 0 is quantized in PyTorch's eager mode, which export cannot hold; "
            "begin the module with a torch.ao.quantization.QuantStub, or",
        ),
        (
            nn.Identity().eval(),
            (torch.zeros(2, dtype=torch.float8_e5m2),),
            "torch program: input 'input' is float8_e5m2, which is not supported; make it float16 or",
        ),
        (
            Narrowing().eval(),
            (torch.zeros(2),),
            "torch program: node '_to_copy' is float8_e4m3fn, which is not supported; make it float16 or",
        ),
        (
            Counted().eval(),
            (torch.zeros(2),),
            "torch program: an output is int, not a tensor; leave it out, or give it as one",
        ),
        (
            Flexible().eval(),
            (torch.zeros(1, 1, 16, 16),),
            "torch program: node 'flex_attention' (flex_attention) holds programs of its own, which is not "
            "supported; of such operations torch.cond, while_loop, map and scan are",
        ),
        (
            Outside().eval(),
            (torch.zeros(2, 3),),
            "node 'as_strided': as_strided reads memory outside of its operand, which is not supported",
        ),
    ],
)
def test_refusals(model: Any, inputs: Sequence[Any] | None, words: str) -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(model, inputs)
    assert str(raised.value).startswith(words)
    assert "\n" not in str(raised.value)


def test_files_that_are_no_programs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "model.pt2"
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(path)
    assert str(raised.value) == f"model '{path}': no such file"
    path.write_bytes(b"not a zip file")
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(path)
    assert str(raised.value).startswith(f"model '{path}' is not a readable torch.export program: ")
    # What torch says of it in many lines is not shown besides.
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("strict", [False, True])
def test_arguments_that_are_fixed_and_results_that_are_none(strict: bool, tmp_path: Path) -> None:
    model, x = Optional().eval(), image(2, 6)
    fixed = {
        "scale": None,
        "x": {0: torch.export.Dim.AUTO, 1: torch.export.Dim.AUTO},
        "mask": None,
        "twice": None,
    }
    program = torch.export.export(model, (1.5, x, None, True), dynamic_shapes=fixed, strict=strict)
    session = session_of(program, tmp_path)
    assert [spec.name for spec in session.inputs] == ["x"]
    for value in (x, image(3, 5)):
        (found,) = session.run({"x": value}).values()
        np.testing.assert_allclose(found, 3 * value.numpy(), rtol=1e-6)


def test_unknown_names_of_inputs() -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(nn.ReLU().eval(), (torch.zeros(2),), dim_orders={"x": (0,)})
    assert str(raised.value) == "torch program has no input 'x'; its inputs are input"


def test_orders_that_are_no_numbers() -> None:
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(nn.ReLU().eval(), (torch.zeros(2, 3),), dim_orders={"input": "NC"})
    assert str(raised.value) == (
        "torch program: input 'input': 'NC' is no dim_order; write the dimensions as numbers, such as "
        "(0, 2, 3, 1) for NHWC over NCHW"
    )


def round_trip(
    name: str, memory_format: torch.memory_format, folder: Path, *, batch: bool, **options: Any
) -> None:
    """A built-in network through ONNX to a PyTorch module, exported, compiled and compared."""
    pytest.importorskip("onnx")
    network = models.build(name, **options)
    models.export_onnx(network, folder / "network.onnx")
    model = convert(folder / "network.onnx")
    rows, columns = network.inputs[0].shape[2:]
    x = image(2, 3, rows, columns, memory_format=memory_format)
    # OnnxModule takes its inputs as one tuple.
    dynamic = (({0: torch.export.Dim("n")},),) if batch else None
    session = session_of(model, folder, (x,), dynamic_shapes=dynamic)
    assert session.inputs[0].dim_order == ((0, 2, 3, 1) if memory_format is LAST else (0, 1, 2, 3))
    for count in (2, 1, 3) if batch else (2,):
        assert_agrees(session, model, (image(count, 3, rows, columns, memory_format=memory_format),), name)


@pytest.mark.parametrize(("memory_format", "batch"), [(torch.contiguous_format, False), (LAST, True)])
def test_a_built_in_network(memory_format: torch.memory_format, batch: bool, tmp_path: Path) -> None:
    round_trip("squeezenet1_1", memory_format, tmp_path, batch=batch, width=0.25, classes=10, image_size=64)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, LAST])
@pytest.mark.parametrize("name", models.names())
def test_all_built_in_networks(
    name: str, batch: bool, memory_format: torch.memory_format, tmp_path: Path
) -> None:
    image_size = 107 if name == "inception_v3" else 64
    round_trip(name, memory_format, tmp_path, batch=batch, width=0.25, classes=10, image_size=image_size)


@pytest.mark.parametrize("version", ["2.8.0", "2.6.0+cu124"])
def test_older_versions_of_torch_are_refused(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    with pytest.raises(ModelError) as raised:
        relay_layout.from_torch(nn.ReLU().eval(), (torch.ones(1),))
    assert str(raised.value) == (
        f"reading PyTorch programs needs torch 2.9 or newer, and this is {version}: "
        "pip install 'relay-layout[torch]'"
    )
