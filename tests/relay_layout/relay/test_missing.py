"""Names of Relay that are not there say what to do instead."""

import pytest

from relay_layout import relay


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("transform.ToCPS", "relay-layout has no such pass; leave it out if it only makes code faster"),
        (
            "frontend.from_keras",
            "save the model with tf.lite.TFLiteConverter and use relay.frontend.from_tflite, with the file's "
            "names and images in NHWC",
        ),
        (
            "frontend.common",
            "helpers of Relay's importers are not there; types are those of relay.transform.InferType",
        ),
        ("quantize.realize", "relay.quantize.quantize does all of it; its parts are not there one by one"),
        (
            "autotvm.get_config",
            "kernels and their knobs are relay-layout's own; leave the line out, and take tasks from "
            "autotvm.task.extract_from_program",
        ),
        ("testing.lstm", "it is one of TVM's own test helpers; relay_layout.models has networks"),
        ("random.uniform", "random numbers are not drawn while a network runs; give them as an input"),
        ("annotation.on_device", "a network runs on one device; leave the line out"),
        (
            "transform.gradient",
            "training is not there; take gradients in the framework that the model comes from",
        ),
        (
            "analysis.detect_feature",
            "relay-layout has no such question; ask it by relay.analysis.post_order_visit",
        ),
        ("op.register_pattern", "what is fused follows from what an operator computes; leave the line out"),
    ],
)
def test_what_to_do_instead(name: str, reason: str) -> None:
    home, _, last = f"relay.{name}".rpartition(".")
    module = relay
    for part in home.split(".")[1:]:
        module = getattr(module, part)
    with pytest.raises(AttributeError) as error:
        getattr(module, last)
    assert str(error.value) == f"module 'relay_layout.{home}' has no attribute '{last}': {reason}"


def test_private_names_are_told_without_a_reason() -> None:
    with pytest.raises(
        AttributeError, match=r"^module 'relay_layout\.relay\.transform' has no attribute '_x'$"
    ):
        _ = relay.transform._x
