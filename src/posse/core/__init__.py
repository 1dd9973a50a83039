"""One core for every kind of reward: sums of sites by pair of task and arm, a loop over them, and three questions.

Which site does a reward make (family), by what are sums multiplied when time passes (forgetting), and what do features
of tasks and arms say before the first reward (prior mean). None of the three knows the others.
"""
