"""Support vector machines of ai.onnx.ml, beside ONNX Runtime."""

from typing import Any

import numpy as np
import onnx
import pytest

import relay_layout
from relay_layout.errors import ModelError
from relay_layout.frontend import from_onnx
from tests.onnx_reference import reference_session
from tests.relay_layout.frontend.onnx.test_features import model_of

RANDOM = np.random.default_rng(12)
KERNELS = {
    "LINEAR": [0.0, 0.0, 0.0],
    "POLY": [0.5, 1.0, 3.0],
    "RBF": [0.25, 0.0, 0.0],
    "SIGMOID": [0.125, 0.5, 0.0],
}


def numbers(count: int) -> list[float]:
    return [float(number) for number in RANDOM.standard_normal(count).astype("float32")]


def machine(operator: str, outputs: int, attributes: dict[str, Any]) -> onnx.ModelProto:
    """One node; an attribute without numbers is left out."""
    given = {name: value for name, value in attributes.items() if value != []}
    return model_of(operator, [["N", 3]], [1], outputs, **given)


def check(model: onnx.ModelProto) -> None:
    data = RANDOM.standard_normal((20, 3)).astype("float32")
    found = list(relay_layout.compile(model, shipped_records=False).session().run({"x0": data}).values())
    expected = reference_session(model.SerializeToString()).run(None, {"x0": data})
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def regressor(count: int = 4, **attributes: Any) -> onnx.ModelProto:
    given = {
        "coefficients": numbers(count or 3),
        "support_vectors": numbers(3 * count),
        "n_supports": count,
        "rho": [0.25],
        "kernel_params": KERNELS["LINEAR"],
    }
    return machine("SVMRegressor", 1, given | attributes)


@pytest.mark.parametrize("kernel", KERNELS)
def test_regression(kernel: str) -> None:
    check(regressor(kernel_type=kernel, kernel_params=KERNELS[kernel]))


def test_regression_without_vectors() -> None:
    check(regressor(0))


def test_one_class() -> None:
    check(regressor(kernel_type="RBF", kernel_params=KERNELS["RBF"], one_class=1, rho=[-0.5]))


def classifier(counts: list[int], *, chances: bool = False, **attributes: Any) -> onnx.ModelProto:
    classes, total = len(counts), sum(counts)
    pairs = classes * (classes - 1) // 2
    given: dict[str, Any] = {
        "classlabels_ints": [10, 20, 30, 40][:classes],
        "coefficients": numbers((classes - 1) * total),
        "support_vectors": numbers(3 * total),
        "vectors_per_class": counts,
        "rho": numbers(pairs),
        "kernel_type": "RBF",
        "kernel_params": KERNELS["RBF"],
    }
    if chances:
        given |= {"prob_a": [-abs(number) for number in numbers(pairs)], "prob_b": numbers(pairs)}
    return machine("SVMClassifier", 2, given | attributes)


@pytest.mark.parametrize("chances", [False, True], ids=["decisions", "probabilities"])
@pytest.mark.parametrize("counts", [[3, 2], [2, 1, 3], [1, 2, 2, 1]], ids=str)
def test_classification(counts: list[int], chances: bool) -> None:
    check(classifier(counts, chances=chances))


def test_scores_alone_of_labels_that_are_texts() -> None:
    model = classifier([2, 1, 3], classlabels_ints=[], classlabels_strings=["a", "b", "c"])
    with pytest.raises(ModelError, match="or take its scores alone"):
        from_onnx(model)
    del model.graph.output[0]
    check(model)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: regressor(kernel_type="CUBIC"), "has the kernel_type 'CUBIC', which is not supported"),
        (lambda: regressor(rho=[0.5, 0.5]), "has 2 numbers in rho where 1 are needed"),
        (lambda: regressor(support_vectors=[0.5]), "has 1 numbers for 4 support vectors of 3 features"),
        (
            lambda: classifier([2, 2], vectors_per_class=[]),
            "has support vectors for 0 of 2 classes, which is not supported",
        ),
        (
            lambda: classifier([2, 2], post_transform="LOGISTIC"),
            "has a post_transform of one score, which is not supported: leave it out",
        ),
    ],
    ids=["kernel", "one number", "vectors", "classes", "transform"],
)
def test_what_is_refused(model: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        from_onnx(model())
