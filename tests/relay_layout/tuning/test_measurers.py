"""What takes times for a target, and where nothing can."""

import pytest

from relay_layout.environment import host
from relay_layout.errors import TargetError
from relay_layout.targets import resolve_target
from relay_layout.tuning.measurers import local_measurer


def test_kernels_of_another_machine_are_not_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    target = resolve_target("aarch64-cortex-a76")
    monkeypatch.setattr(host, "architecture", lambda: "x86_64")
    with pytest.raises(TargetError) as error:
        local_measurer(target)
    assert str(error.value) == (
        "target aarch64-cortex-a76: tuning runs kernels here: built for aarch64 (cortex-a76), this machine "
        "is x86_64; name machines that can run them with --rpc-tracker and --rpc-key, or model its core with "
        "--modelled"
    )
