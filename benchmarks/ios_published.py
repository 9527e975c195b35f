"""What IOS's authors measured, on real GPUs.

Two sources, of which every number here says its own:

- *paper*: "IOS: Inter-Operator Scheduler for CNN Acceleration", the numbers in its text. Most of
  its results are drawings without numbers.
- *README*: of the repository that the paper names (github.com/mit-han-lab/inter-operator-scheduler,
  commit 492167c). Its table of section 4.2.1 holds the means of five runs that the paper's Figure 6
  draws; the other sections print one run each, which differs from the paper's means by up to 8 %.

All with r = 3 and s = 8 on a V100, batch 1, unless it is said.
"""

from __future__ import annotations

NETWORKS = ("inception_v3", "randwire", "nasnet_a_large", "squeezenet")
SCHEDULES = ("sequential", "greedy", "IOS-Merge", "IOS-Parallel", "IOS-Both")
BATCHES = (1, 16, 32, 64, 128)

LATENCIES = {
    "inception_v3": (6.51, 4.62, 5.39, 4.11, 4.03),
    "randwire": (8.49, 6.27, 8.54, 6.02, 6.02),
    "nasnet_a_large": (22.95, 16.78, 22.94, 16.04, 16.04),
    "squeezenet": (0.86, 0.98, 0.74, 0.82, 0.73),
}
"""Figure 6, ms, in the order of SCHEDULES: README 4.2.1, means of five."""

GAINS_2080TI = (1.1, 1.5)
"""Figure 14: IOS-Both against sequential, least and most of the networks: paper, Appendix B."""

BATCH_LATENCIES = {
    1: (6.20, 3.94),
    16: (17.95, 15.17),
    32: (30.54, 27.00),
    64: (55.67, 51.11),
    128: (108.55, 102.74),
}
"""Figure 11, Inception-v3, ms: batch to sequential and IOS-Both. README 4.2.6, one run."""

BEST_BLOCK_GAIN, END_TO_END_GAIN = 2.3, 1.6
"""Figure 16, Inception-v3, IOS-Both against sequential: paper, Appendix C."""

BATCH_SPECIALISATION = {
    (1, 1): 4.04, (1, 32): 4.45, (1, 128): 4.58,
    (32, 1): 29.21, (32, 32): 27.62, (32, 128): 27.85,
    (128, 1): 105.87, (128, 32): 103.58, (128, 128): 102.96,
}  # fmt: skip
"""Table 3 (1), Inception-v3, ms: (batch it runs at, batch it is scheduled for). README 4.2.4, one
run."""

DEVICE_SPECIALISATION = {
    ("v100", "v100"): 4.02, ("v100", "k80"): 4.42,
    ("k80", "k80"): 13.93, ("k80", "v100"): 14.64,
}  # fmt: skip
"""Table 3 (2), Inception-v3, ms: (GPU it runs on, GPU it is scheduled for). README 4.2.4, one
run."""

PRUNING = {
    "inception_v3": {
        (1, 3): (4.22, 5), (1, 8): (4.06, 7), (2, 3): (4.02, 17),
        (2, 8): (3.99, 25), (3, 3): (3.99, 29), (3, 8): (3.96, 43),
    },
    "nasnet_a_large": {
        (1, 3): (17.54, 137), (1, 8): (16.54, 492), (2, 3): (16.85, 360),
        (2, 8): (16.09, 2648), (3, 3): (16.73, 641), (3, 8): (15.91, 3412),
    },
}  # fmt: skip
"""Figure 9: (r, s) to the latency in ms of IOS-Both and the seconds that the search took, which
measures on the GPU. README 4.2.5, one run."""

GAINS_1_8 = {"inception_v3": 1.59, "nasnet_a_large": 1.37}
"""Figure 9, r = 1 and s = 8, against sequential: paper, Section 7.1."""

ACTIVE_WARPS = 1.58
"""Figure 8, the sample network, active warps on average against sequential: paper, Section 6.3."""

SAMPLE_STAGES = (0.1107, 0.1260, 0.1060, 0.1255, 0.0179)
"""The sample network's convolutions 1, 2, 3, 4 and its concatenation, alone, ms: README 3."""

SAMPLE_LATENCIES = (0.486, 0.333)
"""The sample network, ms: sequential and IOS-Parallel. README 3."""

SAMPLE_IOS_STAGES = (("1 ∥ 2", 0.1615), ("4 ∥ 3", 0.1545), ("5", 0.0173))
"""The stages of IOS-Parallel for the sample network, each measured alone, ms: README 3."""

LAST_BLOCK_GAINS = {1: 1.28, 32: 1.08}
"""Figure 10, Inception-v3's last block: how much faster the schedule for this batch is at it than
the one for the other batch is. Paper, Section 7.2, in percent."""

LAST_BLOCK_STAGES = {1: 2, 32: 4}
"""Figure 10: batch to the stages of the schedule found for it. Paper, Section 7.2."""
