from topi_ext.arm_features import told_features


def test_features_that_the_kernel_tells() -> None:
    """The words of a Cortex-A76, of a Neoverse N2, and of a kernel that tells nothing."""
    a76 = told_features([0x119FFF, 0])
    assert a76 is not None
    assert a76 >= {"neon", "asimddp", "dotprod", "fullfp16", "lse", "rcpc", "rdm", "sha2"}
    assert not a76 & {"i8mm", "bf16", "sve", "sve2", "fp16fml"}
    n2 = told_features([0xECFFFFFB, 0x1F7FF])
    assert n2 is not None and n2 >= {"dotprod", "i8mm", "bf16", "sve", "sve2", "fp16fml"}
    assert told_features([0, 0]) is None
