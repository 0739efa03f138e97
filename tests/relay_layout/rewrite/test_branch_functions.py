"""Branches inside of functions run the side that the condition says, whatever the sides read and give."""

from typing import Any

import numpy as np
import pytest

from relay_layout import relay

X = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)

NETWORKS: dict[str, tuple[str, str, str, Any]] = {
    "tensors": ("%x: Tensor[(3, 4), float32]", "tanh(%x)", "exp(%x)", (np.tanh, np.exp)),
    "of any size": ("%x: Tensor[(?, 4), float32]", "tanh(%x)", "exp(%x)", (np.tanh, np.exp)),
    "an input as it is": ("%x: Tensor[(3, 4), float32]", "%x", "exp(%x)", (lambda x: x, np.exp)),
    "tuples in tuples": (
        "%x: Tensor[(3, 4), float32]",
        "(%x, (tanh(%x), 2f))",
        "(exp(%x), (%x, 3f))",
        (lambda x: [x, [np.tanh(x), np.float32(2)]], lambda x: [np.exp(x), [x, np.float32(3)]]),
    ),
    "products": (
        "%x: Tensor[(3, 4), float32]",
        "nn.dense(%x, %x, units=3)",
        "negative(nn.dense(%x, tanh(%x), units=3))",
        (lambda x: x @ x.T, lambda x: -(x @ np.tanh(x).T)),
    ),
    "a branch within one": (
        "%x: Tensor[(3, 4), float32]",
        "if (%d) { tanh(%x) } else { negative(%x) }",
        "exp(%x)",
        (lambda x: -x, np.exp),
    ),
    "other sizes": (
        "%x: Tensor[(?, 4), float32]",
        "nn.relu(concatenate((%x, tanh(%x))))",
        "exp(%x)",
        (lambda x: np.maximum(np.concatenate([x, np.tanh(x)]), 0), np.exp),
    ),
}


def module_of(parameter: str, positive: str, negative: str) -> Any:
    return relay.fromtext(
        f"""#[version = "0.0.5"]
        def @main(%c: bool, %d: bool, {parameter}) {{
          %0 = if (%c) {{ {positive} }} else {{ {negative} }};
          %0
        }}"""
    )


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            compare(one, other)
    else:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_branches(name: str) -> None:
    parameter, positive, negative, expected = NETWORKS[name]
    run = relay.create_executor("vm", mod=module_of(parameter, positive, negative)).evaluate()
    for holds in (True, False):
        compare(run(np.array(holds), np.array(False), X), expected[0 if holds else 1](X))


def test_layouts_around_a_branch() -> None:
    """What is in a branch is converted on its own, beside what is around it."""
    module = relay.fromtext(
        """#[version = "0.0.5"]
        def @main(%c: bool, %x: Tensor[(1, 4, 6, 6), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
          %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
          %1 = if (%c) { nn.conv2d(%0, %w, padding=[1, 1, 1, 1]) } else { tanh(%0) };
          add(%0, nn.relu(%1))
        }"""
    )
    converted = relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]})(module)
    assert relay.astext(converted).count('data_layout="NHWC"') == 2
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape, "float32") for shape in ((1, 4, 6, 6), (4, 4, 3, 3))]
    for holds in (True, False):
        before, after = (
            relay.create_executor("graph", mod=one).evaluate()(np.array(holds), *arrays).numpy()
            for one in (module, converted)
        )
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
