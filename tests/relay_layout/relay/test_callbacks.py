"""Layout callbacks: what they are given, and what becomes of what they return."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

import relay_layout
from relay_layout.errors import LayoutError
from relay_layout.relay import callbacks, transform
from relay_layout.relay.exporting.module import to_tree
from relay_layout.relay.importing import from_tree
from relay_layout.relay.operators import decompose
from relay_layout.relay.syntax import Call, Constant, TensorType, print_text, read_text

TEXT = """def @main(%x: Tensor[(1, 8, 10, 10), float32], %w: Tensor[(16, 8, 3, 3), float32],
                    %v: Tensor[(16, 16, 3, 3), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1]);
  %1 = nn.relu(%0);
  %2 = nn.conv2d(%1, %v, padding=[1, 1, 1, 1]);
  add(%2, %1)
}"""


GLOBAL_POOLING = ("nn.global_max_pool2d", "nn.global_avg_pool2d")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    for name in ("nn.conv2d", "nn.relu", "add", *GLOBAL_POOLING):
        callbacks.reset(name)


def module(text: str = TEXT) -> tvm.IRModule:
    return from_tree(read_text(text, "net"))


def printed(converted: tvm.IRModule) -> str:
    return print_text(to_tree(converted))


def outputs(converted: tvm.IRModule) -> np.ndarray:
    """What a module computes on fixed inputs."""
    generator = np.random.default_rng(1)
    shapes = [(1, 8, 10, 10), (16, 8, 3, 3), (16, 16, 3, 3)]
    arrays = [generator.standard_normal(shape).astype("float32") for shape in shapes]
    machine = relax.VirtualMachine(tvm.compile(decompose(converted), target="llvm"), tvm.cpu())
    return machine["main"](*(tvm.runtime.tensor(array) for array in arrays)).numpy()


def test_a_convert_callback_is_given_what_relay_gave() -> None:
    seen: list[tuple[Any, ...]] = []

    @callbacks.register_convert_op_layout("nn.conv2d", level=11)
    def convert(attrs: Any, inputs: Any, tinfos: Any, desired: Any) -> None:
        seen.append((dict(attrs), len(inputs), tinfos, desired))

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    assert "layout_transform" not in printed(converted) and "transpose" not in printed(converted)
    attrs, count, tinfos, desired = seen[0]
    assert len(seen) == 2
    assert attrs == {
        "strides": (1, 1),
        "padding": (1, 1, 1, 1),
        "dilation": (1, 1),
        "groups": 1,
        "channels": 16,
        "kernel_size": (3, 3),
        "data_layout": "NCHW",
        "kernel_layout": "OIHW",
        "out_layout": attrs["out_layout"],
        "out_dtype": None,
    }
    assert count == 2
    assert tinfos == [TensorType((1, 8, 10, 10), "float32"), TensorType((16, 8, 3, 3), "float32")]
    assert desired == ["NHWC", "default"]


def test_the_call_that_a_convert_callback_returns_takes_the_place() -> None:
    @callbacks.register_convert_op_layout("nn.conv2d", level=11)
    def convert(attrs: Mapping[str, Any], inputs: Any, tinfos: Any, desired: Sequence[str]) -> Call | None:
        if tinfos[0].shape[1] != 16:
            return None
        changed = {**attrs, "data_layout": desired[0], "kernel_layout": "HWIO", "out_layout": ""}
        return Call("nn.conv2d", tuple(inputs), changed)

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    text = printed(converted)
    assert text.count('data_layout="NHWC"') == 1
    np.testing.assert_allclose(outputs(converted), outputs(module()), rtol=1e-4, atol=1e-4)


def test_a_callback_may_put_operators_before_the_call() -> None:
    @callbacks.register_alter_op_layout("nn.conv2d", level=11)
    def alter(attrs: Mapping[str, Any], inputs: Any, tinfos: Any, out_type: Any) -> Call:
        data, weight = inputs
        return Call("nn.conv2d", (data, Call("add", (weight, weight))), dict(attrs))

    converted = transform.AlterOpLayout()(module())
    assert printed(converted).count("add(") == 3


def test_what_a_callback_computes_of_operands_is_transformed_as_they_are() -> None:
    @callbacks.register_convert_op_layout("nn.conv2d", level=11)
    def convert(attrs: Mapping[str, Any], inputs: Any, tinfos: Any, desired: Sequence[str]) -> Call:
        data, weight = inputs
        around = Call(
            "nn.pad", (data, Constant(np.float32(0.0))), {"pad_width": ((0, 0), (0, 0), (1, 1), (1, 1))}
        )
        twice = Call("add", (weight, weight))
        changed = {**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (0, 0, 0, 0)}
        return Call("nn.conv2d", (around, Call("multiply", (twice, Constant(np.float32(0.5))))), changed)

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    text = printed(converted)
    assert text.count('data_layout="NHWC"') == 2
    assert text.count('src_layout="OIHW", dst_layout="HWIO"') == 2
    np.testing.assert_allclose(outputs(converted), outputs(module()), rtol=1e-4, atol=1e-4)


def test_what_a_callback_transforms_itself_is_left_so() -> None:
    @callbacks.register_convert_op_layout("nn.conv2d", level=11)
    def convert(attrs: Mapping[str, Any], inputs: Any, tinfos: Any, desired: Sequence[str]) -> Call:
        data, weight = inputs
        moved = Call("layout_transform", (weight,), {"src_layout": "OIHW", "dst_layout": "HWIO"})
        return Call("nn.conv2d", (data, moved), {**attrs, "data_layout": "NHWC", "kernel_layout": "HWIO"})

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    assert printed(converted).count('src_layout="OIHW", dst_layout="HWIO"') == 2
    np.testing.assert_allclose(outputs(converted), outputs(module()), rtol=1e-4, atol=1e-4)


def test_skip_layers_counts_convolutions() -> None:
    with transform.LayoutConfig(skip_layers=[0]):
        converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    lines = [line for line in printed(converted).splitlines() if "nn.conv2d" in line]
    assert ["NHWC" in line for line in lines] == [False, True]


@pytest.mark.parametrize(
    ("register", "convert"),
    [
        (
            callbacks.register_convert_op_layout,
            transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}),
        ),
        (callbacks.register_alter_op_layout, transform.AlterOpLayout()),
    ],
)
def test_callbacks_are_not_asked_of_convolutions_to_skip(register: Any, convert: Any) -> None:
    channels: list[int] = []
    register("nn.conv2d", lambda attrs, inputs, types, wanted: channels.append(types[0].shape[1]), level=11)
    with transform.LayoutConfig(skip_layers=[0]):
        convert(module())
    assert channels == [16]


@pytest.mark.parametrize(
    "convert", [transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}), transform.AlterOpLayout()]
)
def test_a_configuration_holds_for_any_number_of_convolutions(convert: Any) -> None:
    with transform.LayoutConfig(skip_layers=[0, 9]):
        assert printed(convert(module())).count("nn.conv2d(") == 2


def test_an_infer_callback_carries_its_operator() -> None:
    asked: list[Any] = []

    @callbacks.register_infer_correct_layout("nn.relu", level=11)
    def infer(attrs: Any, new_in: Any, old_in: Any, types: Any) -> callbacks.InferCorrectLayoutOutput:
        asked.append((new_in, old_in, types))
        layout = new_in[0] if new_in else old_in[0]
        return callbacks.InferCorrectLayoutOutput([layout], [layout], attrs)

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    assert (["NHWC"], ["NCHW"], [TensorType((1, 16, 10, 10), "float32")]) in asked
    assert printed(converted).count("layout_transform(") == 4
    np.testing.assert_allclose(outputs(converted), outputs(module()), rtol=1e-4, atol=1e-4)


def test_an_infer_callback_can_refuse_layouts() -> None:
    @callbacks.register_infer_correct_layout("nn.relu", level=11)
    def infer(attrs: Any, new_in: Any, old_in: Any, types: Any) -> callbacks.InferCorrectLayoutOutput:
        return callbacks.InferCorrectLayoutOutput(old_in, old_in, attrs)

    converted = transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())
    assert printed(converted).count("layout_transform(") > 4
    np.testing.assert_allclose(outputs(converted), outputs(module()), rtol=1e-4, atol=1e-4)


def test_the_highest_level_holds() -> None:
    callbacks.register_convert_op_layout("nn.conv2d", lambda *given: None, level=12)
    callbacks.register_convert_op_layout("nn.conv2d", lambda *given: 1 / 0, level=11)
    transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module())


def test_a_second_callback_of_one_level_is_refused() -> None:
    callbacks.register_convert_op_layout("nn.conv2d", lambda *given: None)
    with pytest.raises(
        LayoutError, match=r"convert layout callback for nn\.conv2d: one of level 10 is registered"
    ):
        callbacks.register_convert_op_layout("nn.conv2d", lambda *given: None)


def test_callbacks_are_for_operators_that_exist() -> None:
    with pytest.raises(LayoutError) as error:
        callbacks.register_convert_op_layout("conv2d", lambda *given: None)
    assert str(error.value) == (
        "convert layout callback for 'conv2d': Relay has no such operator; did you mean nn.conv2d?"
    )


def test_of_operators_for_any_number_of_dimensions_that_for_images_is_meant() -> None:
    with pytest.raises(LayoutError, match=r"^desired layouts of 'nn\.conv': .*; did you mean nn\.conv2d\?$"):
        transform.ConvertLayout({"nn.conv": ["NHWC", "default"]})


@pytest.mark.parametrize(
    ("callback", "level", "message"),
    [
        (
            lambda attrs, inputs: None,
            11,
            "it is called with (attrs, inputs, tinfos, desired_layouts), but <lambda> takes (attrs, inputs)",
        ),
        ("NHWC", 11, "a function of (attrs, inputs, tinfos, desired_layouts) is needed, not 'NHWC'"),
        (lambda *given: None, "11", "the level is a whole number, not '11'"),
    ],
)
def test_callbacks_that_cannot_be_asked(callback: Any, level: Any, message: str) -> None:
    with pytest.raises(LayoutError) as error:
        callbacks.register_convert_op_layout("nn.conv2d", callback, level)
    assert str(error.value) == f"convert layout callback for nn.conv2d: {message}"


def test_what_a_callback_raises_names_it() -> None:
    callbacks.register_convert_op_layout("nn.conv2d", lambda *given: given[1][2], level=11)
    message = r"^the convert layout callback for nn\.conv2d raised IndexError: list index out of range$"
    with pytest.raises(LayoutError, match=message):
        transform.convert_layouts(module(), {"nn.conv2d": ["NHWC", "default"]})


@pytest.mark.parametrize(
    ("layers", "message"),
    [(0, "needed, not 0"), ("0", "needed, not '0'"), ([-1], "needed, and -1 is none")],
)
def test_layers_to_skip_that_are_no_positions(layers: Any, message: str) -> None:
    with pytest.raises(LayoutError) as error:
        transform.LayoutConfig(skip_layers=layers)
    assert str(error.value) == f"skip_layers: a list of positions from 0 on is {message}"


def test_desired_layouts_divide_an_axis_once() -> None:
    with pytest.raises(LayoutError, match=r"OIHW4i16o4i divides I twice.*use 16i alone"):
        transform.ConvertLayout({"nn.conv2d": ["NCHW16c", "OIHW4i16o4i"]})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            ["default", "default"],
            "'default' stands for the kernel layout that goes with the data's; name the data's, such as "
            "'NHWC'",
        ),
        (["nhwc", "default"], "layout 'nhwc': axes are capital letters; write 'NHWC'"),
        (["NHWC", "hwio"], "layout 'hwio': axes are capital letters; write 'HWIO'"),
    ],
)
def test_desired_layouts_that_are_none(entry: list[str], message: str) -> None:
    with pytest.raises(LayoutError) as error:
        transform.ConvertLayout({"nn.conv2d": entry})
    assert str(error.value) == f"desired layouts of nn.conv2d: {message}"


def test_an_infer_callback_is_told_the_names_behind_a_transposition() -> None:
    text = """def @main(%x: Tensor[(1, 8, 10, 10), float32], %w: Tensor[(16, 8, 3, 3), float32],
                    %v: Tensor[(16, 16, 3, 3), float32]) {
  nn.relu(transpose(nn.conv2d(%x, %w, padding=[1, 1, 1, 1]), axes=[0, 2, 3, 1]))
}"""
    asked: list[Any] = []

    @callbacks.register_infer_correct_layout("nn.relu", level=11)
    def infer(attrs: Any, new_in: Any, old_in: Any, types: Any) -> callbacks.InferCorrectLayoutOutput:
        asked.append((types[0].shape, old_in))
        return callbacks.InferCorrectLayoutOutput(old_in, old_in, attrs)

    transform.ConvertLayout({"nn.conv2d": ["NCHW8c", "default"]})(module(text))
    assert asked and all(each == ((1, 10, 10, 16), ["NHWC"]) for each in asked)


def test_desired_layouts_are_a_dictionary() -> None:
    with pytest.raises(LayoutError) as error:
        transform.ConvertLayout("NHWC")  # type: ignore[arg-type]
    assert str(error.value) == (
        """desired layouts: a dictionary such as {"nn.conv2d": ["NHWC", "default"]} is needed, not 'NHWC'"""
    )


@pytest.mark.parametrize("name", GLOBAL_POOLING)
def test_callbacks_of_pooling_over_the_whole_image_are_asked(name: str) -> None:
    text = TEXT.replace("add(%2, %1)", f"{name}(%2)")
    seen: list[Any] = []

    def convert(attrs: Any, inputs: Any, *rest: Any) -> Call:
        seen.append(dict(attrs))
        return Call(name, tuple(inputs), {**attrs, "layout": "NHWC"})

    callbacks.register_convert_op_layout(name, convert, level=11)
    converted = transform.ConvertLayout({name: ["NHWC"]})(module(text))
    callbacks.register_alter_op_layout(name, convert, level=11)
    altered = transform.AlterOpLayout()(module(text))
    for changed in (converted, altered):
        assert re.search(rf'{name}\(%\d+, layout="NHWC"\)', printed(changed))
    np.testing.assert_allclose(outputs(converted), outputs(module(text)), rtol=1e-5, atol=1e-5)
    assert seen == [{"layout": "NCHW", "out_layout": ""}] * 2


def test_a_callback_must_return_a_call() -> None:
    callbacks.register_convert_op_layout("nn.conv2d", lambda *given: given[1][0], level=11)
    with pytest.raises(
        Exception, match=r"the callback for nn\.conv2d returned <Var input0>, which is no call"
    ):
        transform.convert_layouts(module(), {"nn.conv2d": ["NHWC", "default"]})


def test_an_infer_callback_must_return_its_own_kind() -> None:
    callbacks.register_infer_correct_layout("nn.relu", lambda *given: None, level=11)
    with pytest.raises(LayoutError, match="returned NoneType, not InferCorrectLayoutOutput"):
        transform.convert_layouts(module(), {"nn.conv2d": ["NHWC", "default"]})


def test_configurations_nest() -> None:
    with transform.LayoutConfig(skip_layers=[1]):
        with transform.LayoutConfig(skip_layers=[2]):
            assert transform.LayoutConfig.current().skip_layers == {2}
        assert transform.LayoutConfig.current().skip_layers == {1}
    assert transform.LayoutConfig.current().skip_layers == frozenset()


UNEVEN = {
    "nn.max_pool2d": "nn.max_pool2d(%x, pool_size=[3, 3], padding=[1, 1, 1, 1])",
    "nn.avg_pool2d": "nn.avg_pool2d(%x, pool_size=[3, 3], padding=[1, 1, 1, 1])",
    "nn.global_avg_pool2d": "nn.global_avg_pool2d(%x)",
    "image.resize2d": "image.resize2d(%x, size=[20, 20])",
}


@pytest.mark.parametrize("operator", UNEVEN)
def test_an_operator_whose_channels_a_block_does_not_divide_is_left_alone(operator: str) -> None:
    text = f"""def @main(%x: Tensor[(1, 12, 10, 10), float32], %y: Tensor[(12, 1, 1), float32]) {{
  %0 = {UNEVEN[operator]};
  multiply(%0, %y)
}}"""
    before = printed(module(text))
    assert printed(transform.ConvertLayout({operator: ["NCHW8c"]})(module(text))) == before
    report = relay_layout.convert(module(text), desired_layouts={operator: ["NCHW8c"]}).report
    assert [reason for reason in report["not_converted"].values() if "block" in reason] == [
        "a block of 8 does not divide the 12 channels of 'x'"
    ]


@pytest.mark.parametrize("entry", [["NCHW16c", "OIHW16i16o"], ["NCHW16c", "OIHW"], ["NCHW8c", "HWIO"]])
def test_a_convolution_whose_channels_a_named_block_does_not_divide_is_left_alone(entry: list[str]) -> None:
    text = """def @main(%x: Tensor[(1, 3, 10, 10), float32], %w: Tensor[(5, 3, 3, 3), float32]) {
  nn.conv2d(%x, %w, padding=[1, 1, 1, 1])
}"""
    (fact,) = relay_layout.explain(module(text), desired_layouts={"nn.conv2d": entry}).operators
    assert "does not divide" in fact.reason
