"""Every kind of workload has features, by its own class or the one that it derives from."""

import pytest

from tests.topi_ext.kernel_workloads import pair, volume
from topi_ext.cuda.workload import DepthwiseConvolution, GemmConvolution
from topi_ext.family import Workload
from topi_ext.tune.models.feature_table import features_of_workload
from topi_ext.tune.models.features import workload_features

WINDOW = ((3, 3), (1, 1), (1, 1, 1, 1), (1, 1))


@pytest.mark.parametrize("workload", [volume(), pair()], ids=["volume", "pair"])
def test_classes_of_convolutions_have_the_features_of_convolutions(workload: Workload) -> None:
    assert features_of_workload(workload) == workload_features(workload)  # type: ignore[arg-type]


def test_classes_of_gpus_have_features_of_their_own() -> None:
    product = GemmConvolution(1, 14, 14, 32, 64, *WINDOW, 1, "float32")
    depthwise = DepthwiseConvolution(1, 14, 14, 64, 64, *WINDOW, 64, "float16")
    assert "log_depth" in features_of_workload(product)
    assert "log_depth" not in features_of_workload(depthwise)
    assert features_of_workload(depthwise)["is_depthwise"] == 1.0
