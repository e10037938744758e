"""Several rounds of every system, one system after another in each, made into one result for each size."""

import statistics

FIGURES = ["us", "p95_us", "rank_s_per_gb", "server_s_per_gb"]


def combine(results):
    """The median of each figure of several rounds' results of one system and size, and the least and the largest time."""
    middle = sorted(results, key=lambda result: result["us"])[len(results) // 2]
    combined = dict(middle, rounds=len(results), least_us=min(result["us"] for result in results),
                    most_us=max(result["us"] for result in results), lost=max(result.get("lost", 0) for result in results))
    for figure in FIGURES:
        values = [result[figure] for result in results if figure in result]
        if values:
            combined[figure] = statistics.median(values)
    return combined


class Rounds:
    """What one system was found to do, round by round."""

    def __init__(self):
        self.found = {}     # by size: a result of each round

    def add(self, results):
        for size, result in results.items():
            self.found.setdefault(size, []).append(result)

    def algorithms(self):
        """Those that were nearly the best for some size in any round; None: there was none yet. A single round says too little to
        leave one out that the next would have as the best."""
        near = {name for results in self.found.values() for result in results for name in result.get("near", [])}
        return near or None

    def combined(self):
        return {size: combine(results) for size, results in self.found.items()}
