"""What follows from the measured time of a call."""

from relay_layout.report.schema import Call, Target


def gflops(call: Call) -> float | None:
    """Operations a second of a call, in 1e9, by its measured time; None without one."""
    if not call["measured_us"] or not call["gigaflop"]:
        return None
    return call["gigaflop"] / call["measured_us"] * 1e6


def peak_share(target: Target, call: Call) -> float | None:
    """The share of the machine's peak at which a call ran; None where it is not known."""
    rate, profile = gflops(call), target["profile"]
    return None if rate is None or profile is None else rate / profile["peak_gflops"]


__all__ = ["gflops", "peak_share"]
