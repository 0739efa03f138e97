"""Files of parameters."""

import numpy as np
import pytest
import tvm

from relay_layout import relay
from relay_layout.errors import ModelError


def test_parameters_come_back_as_tensors():
    arrays = {"a": np.arange(3.0), "b": np.ones((2, 2), "int8"), "c": np.array(1, "float32")}
    tensors = {name: tvm.runtime.tensor(array) for name, array in arrays.items()}
    for given in (arrays, tensors):
        read = relay.load_param_dict(relay.save_param_dict(given))
        assert list(read) == list(arrays)
        for name, array in arrays.items():
            assert isinstance(read[name], tvm.runtime.Tensor)
            np.testing.assert_array_equal(read[name].numpy(), array)
            assert str(read[name].dtype) == str(array.dtype)


def test_damaged_bytes():
    with pytest.raises(ModelError, match=r"expected a file written by relay\.save_param_dict"):
        relay.load_param_dict(b"something else than parameters")
