"""Reductions of one term, and maxima that threads take together, as the rules for GPUs schedule them."""

import numpy as np
import pytest
from gpu_cases import simulated
from tvm import te, tirx, topi

from topi_ext.chooser import KernelChooser
from topi_ext.compute.extremes import extreme
from topi_ext.cuda.multiprocessor import MULTIPROCESSORS
from topi_ext.cuda.schedule.single_terms import without_single_terms
from topi_ext.rules.cuda import cuda_rules

SM_80 = MULTIPROCESSORS["sm_80"]


def scheduled(func: tirx.PrimFunc) -> tirx.PrimFunc:
    rules = cuda_rules(KernelChooser(SM_80, SM_80.gigahertz))
    found = (rule.apply(func, SM_80.target(), False) for rule in rules)
    return next(schedule for schedule in found if schedule is not None).mod["main"]


@pytest.mark.parametrize("depth", [1, 3])
def test_what_follows_a_product_is_computed_once(depth: int) -> None:
    """A bias and an activation, of which neither leaves zero as it is."""
    data, weight = te.placeholder((5, depth), name="data"), te.placeholder((depth, 7), name="weight")
    bias = te.placeholder((7,), name="bias")
    out = topi.sigmoid(topi.add(topi.matmul(data, weight), bias))
    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in ((5, depth), (depth, 7), 7)]
    left, right, shift = (array.astype("float32") for array in arrays)
    found = simulated(scheduled(te.create_prim_func([data, weight, bias, out])), SM_80, left, right, shift)
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-(left @ right + shift))), rtol=1e-5)


@pytest.mark.parametrize("largest", [True, False])
def test_the_extreme_of_one_element_is_itself(largest: bool) -> None:
    data = te.placeholder((6, 1), name="data")
    out = topi.multiply(extreme(data, [1], False, largest=largest), tirx.const(2.0, "float32"))
    image = np.array([[1], [-np.inf], [np.inf], [-3], [0], [7]], "float32")
    found = simulated(scheduled(te.create_prim_func([data, out])), SM_80, image)
    np.testing.assert_array_equal(found, 2 * image[:, 0])


def test_others_are_left() -> None:
    data = te.placeholder((6, 2, 1), name="data")
    func = te.create_prim_func([data, topi.sum(data, [1, 2])])
    assert without_single_terms(func).same_as(func)
    single = te.create_prim_func([data, topi.sum(data, [2])])
    assert "T.init" not in without_single_terms(single).script()


@pytest.mark.parametrize("largest", [True, False])
def test_threads_take_an_extreme_together(largest: bool) -> None:
    """Of rows that TVM's rules divide among threads, as float16; of infinities alone, it is infinite."""
    data = te.placeholder((3, 4, 7, 7), name="data")
    widest = extreme(data, [2, 3], True, largest=largest)
    out = te.compute(widest.shape, lambda *index: widest(*index).astype("float16"), name="narrow")
    image = np.random.default_rng(0).standard_normal((3, 4, 7, 7)).astype("float32")
    image[1, 2] = -np.inf if largest else np.inf
    found = simulated(scheduled(te.create_prim_func([data, out])), SM_80, image)
    reduced = image.max((2, 3), keepdims=True) if largest else image.min((2, 3), keepdims=True)
    np.testing.assert_array_equal(found, reduced.astype("float16"))
