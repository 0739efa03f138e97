"""Targets by name, and the combinations of layouts they offer."""

from typing import Any

import pytest
import tvm

from relay_layout.environment.host import cpu_count
from relay_layout.errors import InputError, TargetError
from relay_layout.targets import resolve, resolve_target
from relay_layout.targets.convolutions import Convolution, fitting_layouts, packed_kernel, plain_layouts
from relay_layout.targets.matrix_products import product_workload
from topi_ext.workloads.convolution import ConvolutionWorkload


def convolution(inputs: int, outputs: int, groups: int = 1, operator: str = "nn.conv2d") -> Convolution:
    rank = int(operator.removeprefix("nn.conv")[0])
    return Convolution(operator, 1, inputs, outputs, (8,) * rank, (3,) * rank, groups)


@pytest.mark.parametrize(
    ("shape", "data", "out", "expected"),
    [
        ((32, 64), "NCHW16c", "NCHW16c", ("NCHW16c", "OIHW16i16o", "NCHW16c")),
        ((3, 64), "NCHW16c", "NCHW16c", ("NCHW", "OIHW16o", "NCHW16c")),
        ((24, 64), "NCHW16c", "NCHW16c", ("NCHW8c", "OIHW8i16o", "NCHW16c")),
        ((32, 58), "NCHW16c", "NCHW16c", ("NCHW16c", "IHW16iO", "NHWC")),
        ((58, 32), "NCHW16c", "NCHW16c", ("NHWC", "OHWI16o", "NCHW16c")),
        ((32, 64), "NHWC", "NHWC", ("NHWC", "OHWI16o", "NHWC")),
        ((32, 1000), "NHWC", "NHWC", ("NHWC", "HWIO", "NHWC")),
        ((32, 64, 4), "NCHW16c", "NCHW16c", ("NCHW16c", "OIHW16o", "NCHW16c")),
        ((32, 32, 32), "NCHW16c", "NCHW16c", ("NCHW16c", "OIHW16o", "NCHW16c")),
        ((24, 24, 24), "NCHW16c", "NCHW16c", ("NCHW8c", "OIHW8o", "NCHW8c")),
        ((24, 24, 24), "NHWC", "NHWC", ("NHWC", "HWOI", "NHWC")),
    ],
)
def test_nearest_layouts_that_fit(
    shape: tuple[int, ...], data: str, out: str, expected: tuple[str, ...]
) -> None:
    layouts = fitting_layouts(convolution(*shape), data, out)
    assert (layouts.data, layouts.kernel, layouts.out) == expected


@pytest.mark.parametrize(
    ("operator", "shape", "data", "out", "expected"),
    [
        ("nn.conv1d", (32, 64), "NCW16c", "NCW16c", ("NCW16c", "OIW16i16o", "NCW16c")),
        ("nn.conv1d", (3, 64), "NCW16c", "NWC", ("NCW", "OIW16o", "NWC")),
        ("nn.conv1d", (24, 24, 24), "NWC", "NWC", ("NWC", "WOI", "NWC")),
        ("nn.conv3d", (32, 64), "NCDHW16c", "NDHWC", ("NCDHW16c", "OIDHW16i16o", "NDHWC")),
        ("nn.conv3d", (32, 64), "NDHWC", "NDHWC", ("NDHWC", "ODHWI16o", "NDHWC")),
        ("nn.conv3d", (58, 32), "NCDHW16c", "NCDHW16c", ("NDHWC", "ODHWI16o", "NCDHW16c")),
        ("nn.conv1d_transpose", (32, 64), "NWC", "NWC", ("NWC", "WIO", "NWC")),
        ("nn.conv2d_transpose", (24, 64), "NCHW16c", "NCHW16c", ("NCHW8c", "IOHW8i16o", "NCHW16c")),
        ("nn.conv2d_transpose", (32, 64, 8), "NCHW16c", "NCHW16c", ("NCHW16c", "HWI16iO", "NCHW16c")),
        ("nn.conv2d_transpose", (32, 32, 32), "NCHW16c", "NCHW16c", ("NCHW16c", "OIHW16i", "NCHW16c")),
        ("nn.conv2d_transpose", (32, 64, 32), "NCHW16c", "NCHW16c", ("NHWC", "HWIO", "NHWC")),
        ("nn.conv3d_transpose", (2, 64), "NCDHW16c", "NDHWC", ("NCDHW", "DHWIO", "NDHWC")),
    ],
)
def test_nearest_layouts_that_fit_every_convolution(
    operator: str, shape: tuple[int, ...], data: str, out: str, expected: tuple[str, ...]
) -> None:
    layouts = fitting_layouts(convolution(*shape, operator=operator), data, out)
    assert (layouts.data, layouts.kernel, layouts.out) == expected


@pytest.mark.parametrize(
    ("operator", "data", "kernel"),
    [
        ("nn.conv1d", "NWC", "WIO"),
        ("nn.conv3d", "NDHWC", "DHWIO"),
        ("nn.conv1d_transpose", "NCW", "IOW"),
        ("nn.conv2d_transpose", "NHWC", "HWIO"),
        ("nn.conv2d_transpose", "HWNC", "HWIO"),
        ("nn.conv3d_transpose", "NDHWC", "DHWOI"),
    ],
)
def test_usual_kernel_layout_of_every_convolution(operator: str, data: str, kernel: str) -> None:
    assert plain_layouts(convolution(8, 8, operator=operator), data).kernel == kernel


@pytest.mark.parametrize(
    ("operator", "kernel", "out", "packed"),
    [
        ("nn.conv1d", "WIO", "NWC", "OWI16o"),
        ("nn.conv2d", "HWIO", "NHWC", "OHWI16o"),
        ("nn.conv3d", "OIDHW", "NDHWC", "ODHWI16o"),
        ("nn.conv3d_transpose", "DHWOI", "NDHWC", "DHWIO"),
        ("nn.conv3d", "OIDHW", "NCDHW", "OIDHW"),
        ("nn.conv2d_transpose", "IOHW16o", "NHWC", "IOHW16o"),
    ],
)
def test_constant_kernels_are_stored_with_outputs_innermost(
    operator: str, kernel: str, out: str, packed: str
) -> None:
    assert packed_kernel(convolution(32, 32, operator=operator), kernel, out) == packed


@pytest.mark.parametrize(
    ("shape", "data", "kernel"),
    [
        ((8, 8), "NCHW", "OIHW"),
        ((8, 8), "NHWC", "HWIO"),
        ((8, 8, 8), "NHWC", "HWOI"),
        ((8, 8), "HWNC", "HWOI"),
    ],
)
def test_usual_kernel_layout(shape: tuple[int, ...], data: str, kernel: str) -> None:
    assert plain_layouts(convolution(*shape), data).kernel == kernel


def test_native_needs_nothing_the_machine_lacks() -> None:
    from relay_layout.artifact import check_runnable

    target = resolve_target("native")
    assert target.threads == cpu_count()
    check_runnable(target.manifest())


def test_levels_name_their_features() -> None:
    features = resolve_target("x86-64-v3").features
    assert "avx2" in features and "sse4_2" in features and "avx512f" not in features


def test_attributes_are_features() -> None:
    """What the processor has not got of itself is checked as well, before anything runs."""
    description = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2"}
    assert "xop" not in resolve_target(description).features
    features = resolve_target({**description, "mattr": ["+avx512f", "+xop"]}).features
    assert {"avx", "avx2", "avx512f", "xop", "sse4_2"} <= set(features)
    features = resolve_target({**description, "mcpu": "sapphirerapids", "mattr": ["-avx512bw"]}).features
    assert not {"avx512bw", "avx512fp16"} & set(features) and "avx512f" in features
    assert "avx512fp16" in resolve_target({**description, "mcpu": "sapphirerapids"}).features


def test_native_does_without_what_a_virtual_machine_hides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processor's name implies AVX-512 still."""
    implied = resolve_target(
        {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}
    ).features
    present = frozenset(name for name in implied if not name.startswith("avx512"))
    monkeypatch.setattr(resolve, "architecture", lambda: "x86_64")
    monkeypatch.setattr(resolve, "cpu_features", lambda: present)
    monkeypatch.setattr(resolve.codegen, "llvm_get_system_cpu", lambda: "sapphirerapids")
    target = resolve_target("native")
    assert set(target.features) == present and {"avx2", "fma", "bmi1", "sse4_2"} <= present
    assert target.processor.vector_bytes == 32
    assert "-avx512f" in list(target.tvm_target.attrs["mattr"])


@pytest.mark.parametrize("has_matrices", [True, False])
def test_native_uses_amx_that_the_name_does_not_imply(
    monkeypatch: pytest.MonkeyPatch, has_matrices: bool
) -> None:
    """A virtual machine may name a processor that is older than what it has."""
    implied = resolve_target({"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "rocketlake"}).features
    more = ("amx_int8", "amx_tile") if has_matrices else ()
    monkeypatch.setattr(resolve, "architecture", lambda: "x86_64")
    monkeypatch.setattr(resolve, "cpu_features", lambda: frozenset({*implied, *more}))
    monkeypatch.setattr(resolve.codegen, "llvm_get_system_cpu", lambda: "rocketlake")
    target = resolve_target("native")
    assert set(target.features) == {*implied, *more}
    assert (target.processor.amx_registers > 0) == has_matrices


SAPPHIRE_RAPIDS = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "sapphirerapids"}


def test_bfloat16_is_stored_between_kernels_where_it_is_computed_in() -> None:
    wide, narrow = (resolve_target(SAPPHIRE_RAPIDS, precision=name) for name in ("fp32", "bf16"))
    assert (wide.storage_dtype, narrow.storage_dtype) == ("float32", "uint16")
    assert "amx_bf16" in narrow.features
    assert (wide.manifest()["precision"], narrow.manifest()["precision"]) == ("fp32", "bf16")
    assert narrow.description.endswith(", bf16)") and "bf16" not in wide.description


@pytest.mark.parametrize(
    ("target", "precision", "message"),
    [
        (
            {**SAPPHIRE_RAPIDS, "mcpu": "x86-64-v4"},
            "bf16",
            "needs a processor that multiplies bfloat16",
        ),
        (
            {**SAPPHIRE_RAPIDS, "mattr": ["-amx-bf16"]},
            "bf16",
            "needs a processor that multiplies bfloat16",
        ),
        (
            "aarch64-cortex-a76",
            "bf16",
            "^target aarch64-cortex-a76: precision bf16 needs a processor that multiplies bfloat16 "
            r"\(AVX512_BF16, AMX, ARM's bf16\), such as znver4, sapphirerapids or aarch64-neoverse-n2; "
            "use fp32$",
        ),
        (SAPPHIRE_RAPIDS, "fp16", "precision fp16 is for CUDA; use bf16 or fp32$"),
        (
            "cuda-sm_90",
            "bf16",
            "^target cuda-sm_90: precision bf16 is for CPUs; use one of fp16, tf32, fp32$",
        ),
        (SAPPHIRE_RAPIDS, "fp8", "^precision 'fp8' is not known; use one of fp16, bf16, tf32, fp32$"),
    ],
)
def test_precisions_that_a_target_does_not_have(target: object, precision: str, message: str) -> None:
    with pytest.raises(TargetError, match=message):
        resolve_target(target, precision=precision)  # type: ignore[arg-type]


def test_a_resolved_target_takes_no_options() -> None:
    target = resolve_target("znver4", threads=2)
    assert resolve_target(target, threads=2) is target
    with pytest.raises(TargetError) as caught:
        resolve_target(target, threads=1, precision="bf16", winograd=False)
    assert str(caught.value) == (
        "target znver4 is resolved, so threads, precision, winograd cannot change it; give these to "
        "resolve_target"
    )


@pytest.mark.parametrize("cpu", ["znver4", "znver5"])
def test_vectors_of_bfloat16_are_enough(cpu: str) -> None:
    target = resolve_target({**SAPPHIRE_RAPIDS, "mcpu": cpu}, precision="bf16", shipped_records=False)
    assert target.processor.amx_registers == 0 and "avx512bf16" in target.features
    blocked = ConvolutionWorkload(
        *(1, 32, 32, 14, 14, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        *("NCHW16c", "OIHW16i16o", "NCHW16c", "float32", "float32"),
    )
    assert target.kernel_form(blocked).kernel_layout == "OIHW8i16o2i"


@pytest.mark.parametrize(
    ("channels", "outputs", "dtype"),
    [(64, 64, "bfloat16"), (64, 1000, "bfloat16"), (63, 64, "float32"), (2, 64, "float32")],
)
def test_the_faster_type_multiplies(channels: int, outputs: int, dtype: str) -> None:
    target = resolve_target(SAPPHIRE_RAPIDS, precision="bf16", threads=2, shipped_records=False)
    found = target.kernel_form(product_workload((4, channels), outputs, "float32"))
    assert (found.dtype, found.out_dtype) == (dtype, "float32")


@pytest.mark.parametrize(
    ("cpu", "attributes", "expected"),
    [
        ("sapphirerapids", [], ["-prefer-256-bit"]),
        ("x86-64-v4", ["+avx512vnni"], ["+avx512vnni", "-prefer-256-bit"]),
        ("icelake-server", ["+prefer-256-bit"], ["+prefer-256-bit"]),
        ("x86-64-v3", ["+f16c"], ["+f16c"]),
    ],
)
def test_whole_registers_of_avx512(cpu: str, attributes: list[str], expected: list[str]) -> None:
    """LLVM halves the vectors it makes itself for Intel, unless it is told otherwise."""
    description = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": cpu, "mattr": attributes}
    assert list(resolve_target(description).tvm_target.attrs["mattr"]) == expected


@pytest.mark.parametrize("threads", [0, -1, 1.5, "2", True])
def test_wrong_numbers_of_threads(threads: Any) -> None:
    with pytest.raises(InputError) as raised:
        resolve_target("native", threads=threads)
    assert str(raised.value) == f"threads: expected a whole number from 1 on, got {threads!r}"


def test_tvm_targets_and_json_are_taken() -> None:
    target = resolve_target(tvm.target.Target({"kind": "llvm", "mcpu": "x86-64-v3", "num-cores": 3}))
    assert (target.threads, target.processor.vector_bytes) == (3, 32)
    assert resolve_target('{"kind": "llvm", "mcpu": "x86-64-v4"}', threads=1).processor.vector_bytes == 64


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            '{"kind": "llvm"',
            "target '{\"kind\": \"llvm\"' is not valid JSON: Expecting ',' delimiter at column 16",
        ),
        (
            '{"kind": "cuda"}',
            'target {"kind": "cuda"}: which GPU is not said; give its arch, such as sm_90',
        ),
        (
            {"kind": "rocm"},
            "target {\"kind\": \"rocm\"}: kind 'rocm' has no kernels yet; use a CPU target (kind 'llvm'), or "
            "a GPU's (kind 'cuda')",
        ),
        (
            "cuda -arch=sm_90 -max_num_threads=1024",
            "target 'cuda -arch=sm_90 -max_num_threads=1024' is written as TVM up to 0.18 had it; today it "
            'is {"kind": "cuda", "arch": "sm_90"}',
        ),
        (
            {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver44"},
            'target {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "znver44"}: '
            "LLVM knows no processor 'znver44' of x86_64",
        ),
        (
            {"kind": "llvm", "mcup": "znver4"},
            'target {"kind": "llvm", "mcup": "znver4"}: \'mcup\' is no attribute of it; '
            "the attributes are mcpu, mattr, mtriple, num-cores",
        ),
        (
            {"kind": "llvm", "num-cores": "two"},
            'target {"kind": "llvm", "num-cores": "two"}: '
            "num-cores: expected a whole number from 1 on, got 'two'",
        ),
        (
            "llvm -mcpu=skylake -mattr=+fma",
            "target 'llvm -mcpu=skylake -mattr=+fma' is written as TVM up to 0.18 had it; today it is "
            '{"kind": "llvm", "mcpu": "skylake", "mattr": ["+fma"]}',
        ),
        (
            "llvm -fast",
            "target 'llvm -fast': '-fast' is not understood; use mcpu, mattr, mtriple, num-cores",
        ),
        ("llvm", "target 'llvm' is written as TVM up to 0.18 had it; today it is native"),
        (
            "cuda-sm_80,native",
            "target 'cuda-sm_80,native' names several, and one is needed; relay-layout compile alone takes a "
            "list, and relay_layout.compile one of Python's",
        ),
        (7, "a int is no target; give a name such as 'native', or TVM's JSON"),
        *(
            (
                text,
                f'target {text}: its kind is not said; give "llvm" and a processor, such as '
                '{"kind": "llvm", "mcpu": "znver4"}, or use \'native\' for this machine',
            )
            for text in ("{}", '{"mcpu": "znver4"}', '{"kind": 5}')
        ),
        ('{"a":' * 9999, "target '" + ('{"a":' * 8) + "'...: not readable as JSON"),
        (
            {"kind": "llvm", "mtriple": "x86-64-linux-gnu"},
            'target {"kind": "llvm", "mtriple": "x86-64-linux-gnu"}: LLVM knows no machine \'x86\'; give an '
            "mtriple such as x86_64-linux-gnu or aarch64-linux-gnu",
        ),
        (
            {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": ["+fma", "-avx2x"]},
            'target {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mattr": ["+fma", "-avx2x"]}: LLVM knows '
            "no feature '-avx2x' of x86_64; it writes them as in +avx512vnni or +dotprod",
        ),
        (
            {"kind": "llvm", "mattr": "+fma"},
            'target {"kind": "llvm", "mattr": "+fma"}: mattr is a list of features, such as '
            '["+avx2", "+fma"]',
        ),
    ],
)
def test_wrong_targets(target: Any, message: str) -> None:
    with pytest.raises(TargetError) as raised:
        resolve_target(target)
    assert str(raised.value) == message


@pytest.mark.parametrize(
    "target",
    [
        {"kind": "cuda", "arch": "sm_90"},
        '{"kind": "cuda", "arch": "sm_90a", "max_num_threads": 1024}',
        tvm.target.Target({"kind": "cuda", "arch": "sm_90"}),
        tvm.target.Target("nvidia/nvidia-h100"),
    ],
    ids=["mapping", "text", "target", "tag"],
)
def test_gpus_as_tvm_describes_them(target: object) -> None:
    assert resolve_target(target, precision="fp16").name == "cuda-sm_90"
