"""posse beside other libraries: the same stream through each, latency and regret."""

from posse_lab.benchmarks.peers.report import PeersReport
from posse_lab.benchmarks.peers.run import QUICK, Plan, measure_peers

__all__ = ["QUICK", "PeersReport", "Plan", "measure_peers"]
