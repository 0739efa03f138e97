"""What follows from the measured time of a call."""

from relay_layout.report.schema import Call, Target


def gflops(call: Call) -> float | None:
    """Operations a second of a call, in 1e9, by its measured time; None without one."""
    if not call["measured_us"] or not call["gigaflop"]:
        return None
    return call["gigaflop"] * (call["runs"] or 1) / call["measured_us"] * 1e6


def peak_share(target: Target, call: Call) -> float | None:
    """The share of the machine's peak at which a call ran; None where it is not known."""
    profile = target["profile"]
    return None if profile is None else share(gflops(call), profile["peak_gflops"], call["multiplied"])


def share(rate: float | None, peak: float, multiplied: str) -> float | None:
    """The share of ``rate`` in ``peak``, which is that of float32; None for products of another dtype."""
    return rate / peak if rate is not None and multiplied == "float32" else None
