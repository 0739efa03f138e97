"""Norms in layouts that Relay's operators of the name do not take are text that computes the same."""

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError


def network(norm: str) -> tvm.IRModule:
    return relay.fromtext(f"""
    def @main(%x: Tensor[(2, 32, 6, 5), float32], %w: Tensor[(32, 32, 3, 3), float32],
              %g: Tensor[(32), float32], %b: Tensor[(32), float32]) {{
        %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]);
        %1 = {norm};
        nn.conv2d(%1, %w, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3]) }}""")


@pytest.mark.parametrize(
    ("norm", "layout"),
    [
        ("nn.layer_norm(%0, %g, %b, axis=1, epsilon=0.1f)", "NCHW8c"),
        ("nn.group_norm(%0, %g, %b, num_groups=4, epsilon=0.1f)", "NHWC"),
    ],
)
def test_text_of_norms_along_several_axes(norm: str, layout: str) -> None:
    module = network(norm)
    converted = relay.transform.ConvertLayout({"nn.conv2d": [layout, "default"]})(module)
    assert norm.split("(")[0] in converted.script(), "the conversion keeps the norm whole"
    text = relay.astext(converted)
    assert text.count("layout_transform(") == 3, "data, weight and result"
    rng = np.random.default_rng(0)
    given = [
        rng.standard_normal([int(extent) for extent in parameter.ty.shape]).astype("float32")
        for parameter in module["main"].params
    ]
    ours, wanted = (
        relay.create_executor("graph", each, tvm.cpu(), "llvm").evaluate()(*given).numpy()
        for each in (relay.fromtext(text), module)
    )
    np.testing.assert_allclose(ours, wanted, atol=1e-5 * abs(wanted).max())


def test_other_calls_have_no_form_still() -> None:
    image = tvm.relax.Var("image", tvm.relax.TensorType((1, 4), "float32"))
    builder = tvm.relax.BlockBuilder()
    with builder.function("main", [image]):
        with builder.dataflow():
            result = builder.emit_output(tvm.relax.op.nn.rms_norm(image, image, axes=[0, 1]))
        builder.emit_func_output(result)
    with pytest.raises(ModelError) as raised:
        relay.astext(builder.get())
    assert "binding gv: relax.nn.rms_norm has no form in Relay on R.Tensor((1, 4)" in str(raised.value)
