"""posse beside other libraries: the same stream through each, latency and regret."""

from posse.benchmarks.peers.report import PeersReport
from posse.benchmarks.peers.run import QUICK, Plan, measure_peers

__all__ = ["QUICK", "PeersReport", "Plan", "measure_peers"]
