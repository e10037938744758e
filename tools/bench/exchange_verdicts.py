#!/usr/bin/env python3
"""How often a trial of exchanges is won (specs/design/exchange.md, Which operations), by operations that are made up.

    tools/bench/exchange_verdicts.py

Operations by servers take so many us and scatter by a log-normal factor of 0.3; exchanges take a part of that. For each
rule the first operations that go by servers, and of 1000 trials how many are won.
"""

import random
import statistics
import sys

PARTS = [0.7, 0.8, 0.9, 1.05, 1.2, 1.5]
RULES = [(6, 1000), (3, 1000), (3, 500)]    # times by servers, and what each takes at least, in us
TRIALS = 1000
SKIPPED, TRIAL_TIMES, FASTER, LOST, LOST_TIMES = 2, 6, 0.97, 1.3, 3


def times(mean_us, count, least_us):
    """So many, each of operations that took long enough together; and how many operations that were."""
    found, spent, together, operations = [], 0.0, 0, 0
    while len(found) < count:
        operations += 1
        took = mean_us * random.lognormvariate(0, 0.3)
        if operations > SKIPPED:
            spent, together = spent + took, together + 1
        if spent >= least_us:
            found.append(spent / together)
            spent, together = 0.0, 0
    return found, operations


def is_won(mean_us, part, count, least_us):
    servers = statistics.median(times(mean_us, count, least_us)[0])
    trial = times(mean_us * part, TRIAL_TIMES, 1000)[0]
    lost = all(one >= LOST * servers for one in trial[:LOST_TIMES])
    return not lost and statistics.median(trial) <= FASTER * servers


def main():
    if sys.argv[1:]:
        print(__doc__.strip())
        return 0 if sys.argv[1:] == ["--help"] else 2
    random.seed(17)
    print("us by servers, times, of us at least, first operations;", *(f"{part:g}" for part in PARTS))
    for mean_us in (80, 250, 800, 5000):
        for count, least_us in RULES:
            first = statistics.mean(times(mean_us, count, least_us)[1] for _ in range(TRIALS))
            won = [sum(is_won(mean_us, part, count, least_us) for _ in range(TRIALS)) for part in PARTS]
            print(f"{mean_us:5} {count} {least_us:5} {first:6.0f} ", *(f"{one:5}" for one in won))
    return 0


if __name__ == "__main__":
    sys.exit(main())
