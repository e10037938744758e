"""What was played, and what came of it: kept in a file where one is given, so that a later run goes on where this one has ended."""

import json

import cells

HELD, BROKEN, SKIPPED = "held", "broken", "skipped"
TRIES = 3  # what is skipped is played again, but not for ever


class Record:
    """A line of the file for each play: its cell, seed, result and what was said of it."""

    def __init__(self, path):
        self.path = path
        self.plays = {}
        if path:
            with open(path, "a+", encoding="utf-8") as file:
                file.seek(0)
                for line in file:
                    play = json.loads(line)
                    self.count(tuple(play["cell"].split("/")), play["result"])

    def count(self, cell, result):
        self.plays.setdefault(cell, []).append(result)

    def add(self, cell, seed, result, text):
        self.count(cell, result)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"cell": cells.name_of(cell), "seed": seed, "result": result, "text": text}) + "\n")

    def times(self, cell):
        """How often it was played; what was skipped counts only when it has been so again and again."""
        results = self.plays.get(cell, [])
        skipped = results.count(SKIPPED)
        return len(results) - (skipped if skipped < TRIES else 0)

    def least_played(self, chosen):
        least = min(map(self.times, chosen))
        return [cell for cell in chosen if self.times(cell) == least]

    def count_with(self, result, chosen):
        return sum(result in self.plays.get(cell, ()) for cell in chosen)

    def summary(self, chosen):
        """Of these cells."""
        played = sum(map(self.times, chosen))
        different = sum(self.times(cell) > 0 for cell in chosen)
        return f"{played} played, {different} of {len(chosen)} cells, {self.count_with(BROKEN, chosen)} broken, " \
               f"{self.count_with(SKIPPED, chosen)} skipped"

    def words_of(self, cell):
        results = self.plays.get(cell, [])
        words = [str(results.count(HELD))] if HELD in results else []
        words += [f"{results.count(each)} {each}" for each in (BROKEN, SKIPPED) if each in results]
        return ", ".join(words) or "-"
