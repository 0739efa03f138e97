"""Transforms are printed with the names that the operators around them have for their layouts."""

import re

import pytest
import tvm

from relay_layout import relay
from relay_layout.relay.testing import TempOpAttr

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(32, 32, 3, 3), float32],
          %b: Tensor[(32), float32]) {
  %0 = nn.conv2d(%x, %w, channels=32, kernel_size=[3, 3]);
  %1 = nn.relu(nn.bias_add(%0, %b));
  nn.softmax(transpose(nn.max_pool2d(%1, pool_size=[2, 2]), axes=[0, 3, 1, 2]))
}"""


def transforms(module: tvm.IRModule) -> list[tuple[str, str]]:
    text = relay.astext(module)
    return re.findall(r'layout_transform\(%\w+, src_layout="(\w+)", dst_layout="(\w+)"\)', text)


@pytest.mark.parametrize(
    ("data", "kernel", "expected"),
    [
        ("NHWC", "HWIO", [("NCHW", "NHWC"), ("OIHW", "HWIO"), ("NHWC", "NWCH")]),
        ("NCHW4c", "OIHW4i4o", [("NCHW", "NCHW4c"), ("OIHW", "OIHW4i4o"), ("NCHW4c", "NWCH")]),
    ],
)
def test_layouts_are_those_of_the_operators_around(
    data: str, kernel: str, expected: list[tuple[str, str]]
) -> None:
    converted = relay.transform.ConvertLayout({"nn.conv2d": [data, kernel]})(relay.fromtext(TEXT))
    assert transforms(converted) == expected
    assert transforms(relay.fromtext(relay.astext(converted))) == expected


def test_what_a_network_transposes_is_a_transpose() -> None:
    text = relay.astext(relay.fromtext(TEXT))
    assert "layout_transform" not in text
    assert "transpose(" in text


def test_transforms_behind_one_another_and_of_unknown_layouts() -> None:
    text = """#[version = "0.0.5"]
    def @main(%x: Tensor[(1, 8, 6, 6), float32], %w: Tensor[(8, 3, 3, 8), float32],
              %y: Tensor[(2, 3, 4, 5), float32]) {
      %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c");
      %1 = layout_transform(%0, src_layout="NCHW4c", dst_layout="NHWC");
      %2 = nn.conv2d(%1, %w, data_layout="NHWC", kernel_layout="OHWI");
      (%2, layout_transform(%y, src_layout="HWIO", dst_layout="OIHW"))
    }"""
    assert transforms(relay.fromtext(text)) == [("NCHW", "NCHW4c"), ("NCHW4c", "NHWC"), ("ABCD", "DCAB")]


def test_altered_by_a_callback() -> None:
    def alter(attrs, inputs, tinfos, out_type):  # type: ignore[no-untyped-def]
        layouts = {"data_layout": "NCHW8c", "kernel_layout": "OIHW8i8o"}
        return relay.nn.conv2d(*inputs, **{**attrs, **layouts})

    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", alter):
        altered = relay.transform.AlterOpLayout()(relay.fromtext(TEXT))
    assert transforms(altered)[:2] == [("NCHW", "NCHW8c"), ("OIHW", "OIHW8i8o")]


@pytest.mark.parametrize(
    "behind",
    [
        "nn.batch_norm(%0, %b, %b, %b, %b).0",
        "nn.dropout(%0, rate=0.5f).0",
        "add(split(%0, indices_or_sections=2, axis=1).0, split(%0, indices_or_sections=2, axis=1).1)",
    ],
)
@pytest.mark.parametrize("layout", ["NHWC", "NCHW8c"])
def test_behind_operators_that_give_tuples(behind: str, layout: str) -> None:
    text = f"""#[version = "0.0.5"]
    def @main(%x: Tensor[(1, 32, 8, 8), float32], %w: Tensor[(32, 32, 3, 3), float32],
              %b: Tensor[(32), float32]) {{
      %0 = nn.conv2d(%x, %w, channels=32, kernel_size=[3, 3]);
      {behind}
    }}"""
    converted = relay.transform.ConvertLayout({"nn.conv2d": [layout, "default"]})(relay.fromtext(text))
    assert transforms(converted)[-1] == (layout, "NCHW")
