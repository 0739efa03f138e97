"""Layers measured in small processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_layout.bench.layers import measurer as layer_measurer
from relay_layout.bench.layers.measurer import TINY, LayerMeasurer
from relay_layout.bench.peers import CallablePeer
from relay_layout.targets import BuildTarget, resolve_target
from topi_ext.knobs import ConvolutionKnobs

DIRECT = ConvolutionKnobs(16, 1, 1)


@pytest.fixture(scope="module")
def target() -> BuildTarget:
    return resolve_target(threads=1, shipped_records=False)


@pytest.fixture(scope="module")
def measurer(target: BuildTarget) -> Iterator[LayerMeasurer]:
    pytest.importorskip("torch")
    with LayerMeasurer(target, seconds=0.01) as measurer:
        yield measurer


def test_a_kernel_that_fails_is_named_and_the_next_one_is_measured(measurer: LayerMeasurer) -> None:
    bad = measurer.measure(TINY, ConvolutionKnobs(16, 2, 1))
    assert bad.ours_us is None
    assert bad.onednn_us is not None
    assert bad.relative_error is None
    (failure,) = bad.failures
    assert failure.startswith("relay-layout: knobs {")
    assert failure.endswith("tile of 2 pixels on a run of 1")
    good = measurer.measure(TINY, DIRECT)
    assert good.failures == ()
    assert good.ours_us is not None
    assert good.ours_least_us is not None
    assert good.ours_least_us <= good.ours_us
    assert good.relative_error is not None
    assert good.relative_error < 1e-6


def test_without_torch_there_are_our_times(target: BuildTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = CallablePeer("oneDNN", layer_measurer.ONEDNN.prepare_model, ("a_package_nobody_has",), "torch")
    monkeypatch.setattr(layer_measurer, "ONEDNN", absent)
    with LayerMeasurer(target, seconds=0.01) as measurer:
        times = measurer.measure(TINY, DIRECT)
        assert measurer.missing == "oneDNN: needs a_package_nobody_has: pip install 'relay-layout[bench]'"
    assert times.ours_us is not None
    assert (times.onednn_us, times.relative_error, times.failures) == (None, None, ())
    assert set(measurer.versions()) == {"relay-layout"}
