import pytest

from topi_ext.machine.arm_features import CAPABILITY_WORDS, capability, told_features


def test_features_that_the_kernel_tells() -> None:
    """The words of a Cortex-A76, of a Neoverse N2, and of a kernel that tells nothing."""
    a76 = told_features([0x119FFF, 0])
    assert a76 is not None
    assert a76 >= {"neon", "asimddp", "dotprod", "fullfp16", "lse", "rcpc", "rdm", "sha2"}
    assert not a76 & {"i8mm", "bf16", "sve", "sve2", "fp16fml"}
    n2 = told_features([0xECFFFFFB, 0x1F7FF])
    assert n2 is not None and n2 >= {"dotprod", "i8mm", "bf16", "sve", "sve2", "fp16fml"}
    assert told_features([0, 0]) is None


@pytest.mark.parametrize(
    ("feature", "place"), [("dotprod", (16, 20)), ("asimddp", (16, 20)), ("i8mm", (26, 13)), ("avx2", None)]
)
def test_where_the_kernel_tells_of_a_feature(feature: str, place: tuple[int, int] | None) -> None:
    assert capability(feature) == place
    if place is not None:
        words = [1 << place[1] if word == place[0] else 0 for word in CAPABILITY_WORDS]
        assert feature in (told_features(words) or ())
