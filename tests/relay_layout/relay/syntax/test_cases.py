"""Files that Relay wrote: every one is read, and printed as Relay printed it."""

import re

import pytest
from relay_files import DATA, DOCUMENTS, TEXTS

from relay_layout.relay.syntax import (
    Call,
    Constant,
    Module,
    post_order,
    print_text,
    read_json,
    read_text,
    structurally_equal,
)


def code(text: str) -> str:
    """A text without comments and metadata section."""
    return re.sub(r" /\*.*?\*/", "", text.split("#[metadata]")[0]).strip()


def read(name: str) -> Module:
    return read_text((DATA / name).read_text(), name)


@pytest.mark.parametrize("name", TEXTS)
def test_text_reads_back_as_it_was(name: str) -> None:
    module = read(name)
    printed = print_text(module)
    assert structurally_equal(module, read_text(printed))
    # Relay shows the attributes of this operator in the metadata section only.
    if name != "roi_align.relay":
        assert code(printed) == code((DATA / name).read_text())


@pytest.mark.parametrize("name", TEXTS)
def test_module_without_header_reads_as_well(name: str) -> None:
    text = (DATA / name).read_text()
    without_header = text.partition("\n")[2]
    assert structurally_equal(read_text(text), read_text(without_header))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_says_the_same_as_text(name: str) -> None:
    document = read_json((DATA / name).read_text(), name)
    text = read(name.replace(".json", ".relay"))
    if name == "requantize.json":
        # Between printing and saving, Relay filled in what the operator computes in.
        (requantize,) = (
            part
            for part in post_order(document.functions["main"])
            if isinstance(part, Call) and part.op == "qnn.requantize"
        )
        assert requantize.attrs == {
            "rounding": "UPWARD",
            "compute_dtype": "int64",
            "out_dtype": "int32",
        }
        document = read_text(print_text(document).replace(', rounding="UPWARD", compute_dtype="int64"', ""))
    assert structurally_equal(document, text)
    names = [[param.name for param in module.functions["main"].params] for module in (document, text)]
    assert names[0] == names[1]
    assert document.functions["main"].params[0].type == text.functions["main"].params[0].type


def test_constants_come_from_the_metadata_section() -> None:
    module = read("const_conv_bn_nchw.relay")
    constants = [part for part in post_order(module.functions["main"]) if isinstance(part, Constant)]
    assert [constant.data.shape for constant in constants] == [(32, 16, 3, 3), *[(32,)] * 5, (10, 800)]
    assert all(constant.data.dtype == "float32" for constant in constants)
    assert constants[0].data.std() > 0


def test_position_of_a_call_is_kept() -> None:
    module = read("conv_relu.relay")
    body = module.functions["main"].body
    assert isinstance(body, Call) and body.op == "nn.relu"
    assert body.span is not None
    assert (
        (DATA / "conv_relu.relay")
        .read_text()
        .splitlines()[body.span.line - 1][body.span.column - 1 :]
        .startswith("nn.relu(")
    )
