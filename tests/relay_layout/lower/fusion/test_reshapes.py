"""Functions of extents that are computed of others are told from reshapes."""

from tvm import relax, tirx

from relay_layout.ir import operator_name
from relay_layout.lower.fusion.reshapes import rewrite_reshapes
from tests.relax_modules import module_giving
from topi_ext.ir import nodes_of

op = relax.op


def rewritten(axes: list[int]) -> list[str]:
    """The operators that are left of a transpose of words, 11 beside those of an image."""
    rows, columns = tirx.Var("rows", "int64"), tirx.Var("columns", "int64")
    words = rows // 16 * (columns // 16) + 11
    image = relax.Var("image", relax.TensorType([1, 1, rows, columns], "float32"))
    data = relax.Var("data", relax.TensorType([1, words, 3, 16], "float32"))
    module = relax.transform.LegalizeOps()(module_giving(op.permute_dims(data, axes), image, data))
    return [operator_name(call) for call in nodes_of(rewrite_reshapes(module)["main"], relax.Call)]


def test_words_of_an_image_and_others_are_transposed() -> None:
    """TVM's own pass ended in an error."""
    assert rewritten([0, 2, 3, 1]) == ["call_tir"]


def test_tensors_without_elements_are_not_reshaped() -> None:
    """An extent of 0 would say to take that of the data."""
    data = relax.Var("data", relax.TensorType([0, tirx.Var("rows", "int64"), 3], "float32"))
    module = relax.transform.LegalizeOps()(module_giving(op.expand_dims(data, 0), data))
    found = rewrite_reshapes(module)["main"]
    assert [operator_name(call) for call in nodes_of(found, relax.Call)] == ["call_tir"]
