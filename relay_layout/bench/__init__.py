"""Measuring relay-layout and other runtimes on the same models, in one run, with equal threads."""

from relay_layout.bench.benchmark import run_bench
from relay_layout.bench.peers import PEERS, CallablePeer, Peer, PeerUnavailable, Runner
from relay_layout.bench.results import BenchResult
from relay_layout.bench.table import format_table, to_json

__all__ = [
    "PEERS",
    "BenchResult",
    "CallablePeer",
    "Peer",
    "PeerUnavailable",
    "Runner",
    "format_table",
    "run_bench",
    "to_json",
]
