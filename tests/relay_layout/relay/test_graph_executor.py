"""Setting inputs, running, and reading outputs."""

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import InputError

X = np.arange(6, dtype="float32").reshape(2, 3)
W = np.full((2, 3), 2, "float32")


@pytest.fixture(scope="module")
def library():
    x, w, i = relay.var("x", shape=X.shape), relay.var("w", shape=X.shape), relay.var("i", "int32")
    results = relay.Tuple([x * w, relay.cast(i, "float32") + x])
    return relay.build(relay.Function([x, w, i], results), "llvm", params={"w": W})


@pytest.fixture
def module(library):
    return relay.graph_executor.GraphModule(library["default"](tvm.cpu(0)))


def test_inputs_by_name_position_and_keyword(module):
    module.set_input("x", X)
    module.set_input(1, 5)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), X * W)
    np.testing.assert_array_equal(module.get_output(1).numpy(), X + 5)
    module.set_input(x=X + 1, i=np.int32(0))
    module.run()
    np.testing.assert_array_equal(module.get_output(1).numpy(), X + 1)
    module.run(x=X)
    np.testing.assert_array_equal(module.get_output(1).numpy(), X)


@pytest.mark.parametrize(
    "value", [X, X.astype("float64"), X.astype("int8"), X.tolist(), tvm.runtime.tensor(X)], ids=type
)
def test_values_are_converted_to_the_dtype_of_the_input(module, value):
    module.run(x=value, i=0)
    np.testing.assert_array_equal(module.get_output(0).numpy(), X * W)


def test_what_is_set_is_a_copy(module):
    array = X.copy()
    module.set_input("x", array)
    array[:] = 0
    module.run(i=0)
    np.testing.assert_array_equal(module.get_output(1).numpy(), X)


def test_outputs_stay_when_it_runs_again(module):
    module.run(x=X, i=0)
    first = module.get_output(0)
    module.run(x=X + 1)
    np.testing.assert_array_equal(first.numpy(), X * W)


def test_outputs_are_tensors_of_tvm(module):
    module.run(x=X, i=0)
    output = module.get_output(0)
    assert isinstance(output, tvm.runtime.Tensor)
    assert (tuple(output.shape), str(output.dtype), len(output)) == ((2, 3), "float32", 2)
    np.testing.assert_array_equal(output.asnumpy(), X * W)
    np.testing.assert_array_equal(np.asarray(output, "float64"), X * W)
    np.testing.assert_array_equal(np.from_dlpack(output), X * W)
    assert output[1, 2] == 10
    copy = tvm.runtime.empty((2, 3))
    copy.copyfrom(output)
    np.testing.assert_array_equal(copy.numpy(), X * W)
    assert "array(" in repr(output)


@pytest.mark.parametrize("make", [lambda: np.empty((2, 3), "float32"), lambda: tvm.runtime.empty((2, 3))])
def test_outputs_are_copied_into_what_is_given(module, make):
    module.run(x=X, i=0)
    out = make()
    assert module.get_output(0, out) is out
    np.testing.assert_array_equal(out if isinstance(out, np.ndarray) else out.numpy(), X * W)


def test_numbers_and_names_of_inputs_and_outputs(module):
    assert (module.get_num_inputs(), module.get_num_outputs()) == (2, 2)
    assert module.get_input_info() == ({"x": (2, 3), "i": ()}, {"x": "float32", "i": "int32"})
    assert [module.get_input_index(name) for name in ("x", "i", "w")] == [0, 1, -1]


def test_inputs_can_be_read_back(module):
    assert module.get_input("x") is None
    module.set_input("x", X)
    np.testing.assert_array_equal(module.get_input(0).numpy(), X)
    out = tvm.runtime.empty((2, 3))
    assert module.get_input("x", out) is out
    np.testing.assert_array_equal(out.numpy(), X)


def test_files_of_parameters(module):
    module.load_params(relay.save_param_dict({"x": X, "i": np.array(1, "int32"), "w": W}))
    module.run()
    np.testing.assert_array_equal(module.get_output(1).numpy(), X + 1)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda module: module.set_input("y", X), "there is no input 'y'; inputs are x, i"),
        (lambda module: module.set_input(2, X), "there is no input 2; inputs are x, i"),
        (
            lambda module: module.set_input("x", X[0]),
            r"input 'x': expected float32 \[2, 3\], got float32 \[3\]",
        ),
        (lambda module: module.set_input("x", np.full((2, 3), "a")), "input 'x': expected float32"),
        (lambda module: module.set_input(w=W + 1), "parameter 'w' became part of the network in relay.build"),
        (lambda module: module.run(x=X), "missing input 'i'"),
        (lambda module: module.get_output(0), r"there are no outputs before the first run\(\)"),
        (lambda module: (module.run(x=X, i=0), module.get_output(2)), "there is no output 2; there are 2"),
        (lambda module: (module.run(x=X, i=0), module.get_output(-1)), "there is no output -1"),
    ],
)
def test_mistakes(module, act, message):
    with pytest.raises(InputError, match=message):
        act(module)


def test_methods_that_are_not_there(module):
    with pytest.raises(
        AttributeError,
        match=r"^'GraphModule' object has no attribute 'set_input_zero_copy': set_input takes the array$",
    ):
        module.set_input_zero_copy("x", X)


def test_setting_what_is_built_in_to_the_same_changes_nothing(module):
    module.run(x=X, i=0, w=W)
    np.testing.assert_array_equal(module.get_output(0).numpy(), X * W)


def test_functions_by_name(module):
    module["set_input"]("x", X)
    module.module["set_input"]("i", 0)
    module["run"]()
    np.testing.assert_array_equal(module["get_output"](0).numpy(), X * W)
    with pytest.raises(AttributeError, match="there is no function 'debug'"):
        module["debug"]


def test_what_is_no_module():
    with pytest.raises(TypeError, match=r"GraphModule takes what .* gives, not str"):
        relay.graph_executor.GraphModule("library")


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmarks_give_times_in_seconds(module, end_to_end):
    result = module.benchmark(tvm.cpu(), repeat=3, number=2, min_repeat_ms=1, end_to_end=end_to_end, x=X, i=0)
    assert len(result.results) == 3
    assert 0 < result.min <= result.median <= result.max < 1
    assert "mean (ms)" in str(result)


def test_time_evaluators(module):
    module.set_input(x=X, i=0)
    result = module.module.time_evaluator("run", tvm.cpu(), number=1, repeat=4)()
    assert np.array(result.results).shape == (4,)


def test_modules_of_one_library_are_independent(library):
    first, second = (relay.graph_executor.GraphModule(library["default"](tvm.cpu())) for _ in range(2))
    first.run(x=X, i=0)
    second.run(x=X + 1, i=0)
    np.testing.assert_array_equal(first.get_output(1).numpy(), X)
