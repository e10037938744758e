"""Tries every order of the steps of the models of epochs (specs/design/epochs.md) and of the end of exchanges
(specs/design/exchange.md), in the worlds below; then plants bugs, each of which must be found. A bug that is not found is an
error of the model.

  run.py [--sample | --cycles] [WORLD-OR-BUG...]

  --sample  not all orders, but some millions of them: for the worlds whose orders take minutes
  --cycles  looks for states that come again, instead of wrong ones: where there are none, each order comes to an end, and
            without it no end is one in which somebody still waits. Of all worlds but those of two deaths, and those "of all", which must be named"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent

# The switches of epochs.pml.
WORLDS = {
    "death": "SERVERS=2 FAULTS=1 WAITS=1",
    "copies": "SERVERS=2 FAULTS=1 WAITS=0",
    "waits": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7",
    "reduce": "SERVERS=2 FAULTS=1 WAITS=1 REDUCE",
    "in_place": "SERVERS=2 FAULTS=1 WAITS=1 IN_PLACE",
    "cut": "SERVERS=2 FAULTS=1 WAITS=1 CUTS",
    "held": "SERVERS=2 FAULTS=1 WAITS=1 HELD",
    "rank_dies": "SERVERS=2 FAULTS=1 WAITS=1 RANK_DIES",
    "two_deaths": "SERVERS=3 FAULTS=2 WAITS=3 BLOCKS=6",
    "join": "SERVERS=3 FAULTS=1 WAITS=3 BLOCKS=7 JOINS ASKS=1",
    "join_first_two_die": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 JOINS ASKS=1",
    "join_and_first_die": "SERVERS=3 FAULTS=2 DIES=5 WAITS=3 BLOCKS=7 JOINS ASKS=1",
    "join_and_second_die": "SERVERS=3 FAULTS=2 DIES=6 WAITS=3 BLOCKS=7 JOINS ASKS=1",
    "drain": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 DRAINS ASKS=2",
    "left_out": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 LEAVES_OUT ASKS=2",
    "left_out_three": "SERVERS=3 FAULTS=2 DIES=6 WAITS=3 BLOCKS=7 LEAVES_OUT ASKS=1",
    "join_and_drain": "SERVERS=3 FAULTS=0 WAITS=3 BLOCKS=7 JOINS DRAINS ASKS=4 REFUSALS=1",
    "rescue": "SERVERS=2 FAULTS=1 WAITS=1 OTHERS=2",
    "rescue_held": "SERVERS=2 FAULTS=1 WAITS=1 HELD OTHERS=2",
    "rescue_in_place": "SERVERS=2 FAULTS=1 WAITS=1 IN_PLACE OTHERS=2",
    "rescue_cut": "SERVERS=2 FAULTS=1 WAITS=1 CUTS OTHERS=2",
    "rescue_cut_of_three": "SERVERS=3 FAULTS=1 WAITS=3 BLOCKS=7 CUTS OTHERS=6",
    "rescue_told": "SERVERS=2 FAULTS=1 WAITS=1 OTHERS=2 TOLD",
    "rescue_told_cut": "SERVERS=2 FAULTS=1 WAITS=1 CUTS OTHERS=2 TOLD",
    "rescue_told_cut_again": "SERVERS=2 FAULTS=2 WAITS=3 BLOCKS=7 CUTS OTHERS=2 TOLD",
    "rescue_told_cut_of_three": "SERVERS=3 FAULTS=1 WAITS=3 BLOCKS=7 CUTS OTHERS=6 TOLD",
    "rescue_told_of_three": "SERVERS=3 FAULTS=1 WAITS=3 BLOCKS=7 OTHERS=6 TOLD",
    "rescue_told_join": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 JOINS ASKS=1 OTHERS=2 TOLD",
    "rescue_told_behind": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 OTHERS=4 TOLD",
    "rescue_rank_dies": "SERVERS=2 FAULTS=1 WAITS=1 RANK_DIES OTHERS=2",
    "rescue_join": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 JOINS ASKS=1 OTHERS=2",
    "rescue_join_cut": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 CUTS JOINS ASKS=1 OTHERS=2",
    "rescue_join_both_die": "SERVERS=2 FAULTS=2 WAITS=3 BLOCKS=7 JOINS ASKS=1 OTHERS=2",
    "rescue_behind": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 OTHERS=4",
    "rescue_again": "SERVERS=3 FAULTS=2 WAITS=3 BLOCKS=7 OTHERS=6",
    "rescue_again_rank_dies": "SERVERS=3 FAULTS=2 WAITS=3 BLOCKS=7 RANK_DIES OTHERS=6",
    "rescue_again_cut": "SERVERS=3 FAULTS=2 WAITS=3 BLOCKS=7 CUTS OTHERS=6",
    "rescue_again_join": "SERVERS=3 FAULTS=2 WAITS=3 BLOCKS=7 JOINS ASKS=1 OTHERS=6",
}
BUGS = {
    "BUG_ONE_MISSING": "SERVERS=2 FAULTS=1",
    "BUG_LARGEST": "SERVERS=2 FAULTS=1",
    "BUG_OWN_FIRST": "SERVERS=2 FAULTS=1",
    "BUG_UNSTABLE": "SERVERS=2 FAULTS=1",
    "BUG_OLD_TABLE": "SERVERS=2 FAULTS=1",
    "BUG_TAKE_ON": "SERVERS=2 FAULTS=1",
    "BUG_NO_HAVE": "SERVERS=2 FAULTS=1 IN_PLACE",
    "BUG_HELD_MISSING": "SERVERS=2 FAULTS=1 WAITS=3 HELD",
    "BUG_FIRST_GONE": "SERVERS=2 FAULTS=1 CUTS",
    "BUG_NO_GONE": "SERVERS=2 FAULTS=1 RANK_DIES",
    "BUG_ONE_PROMISE": "SERVERS=2 FAULTS=0 DRAINS ASKS=2",
    "BUG_OWN_PROMISE": "SERVERS=2 FAULTS=0 DRAINS ASKS=2",
    "BUG_KEEPS_PROMISE": "SERVERS=2 FAULTS=0 WAITS=3 DRAINS ASKS=1 REFUSALS=1",
    "BUG_LEAVES_EARLY": "SERVERS=2 FAULTS=0 WAITS=3 BLOCKS=7 DRAINS ASKS=2",
    "BUG_RESTS_ON": "SERVERS=2 FAULTS=1 WAITS=3 BLOCKS=7 DRAINS ASKS=2",
    "BUG_LOST_AGAIN": "SERVERS=3 FAULTS=1 WAITS=3 BLOCKS=7 JOINS ASKS=1",
    "BUG_NOT_SAID_AGAIN": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 OTHERS=4",
    "BUG_RESCUE_ONE_MISSING": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 OTHERS=4",
    "BUG_RESCUE_TAKES_ON": "SERVERS=2 FAULTS=1 OTHERS=2",
    "BUG_TOLD_LEAVES": "SERVERS=2 FAULTS=1 OTHERS=2 TOLD",
    "BUG_ONE_GROUP": "SERVERS=3 FAULTS=2 DIES=3 WAITS=3 BLOCKS=7 OTHERS=6",
}
CYCLES = {"BUG_TURNS": "SERVERS=2 FAULTS=1 WAITS=1"}

# The same of exchanges.pml. Where the name says "of all" any rank may begin operations before earlier ones have returned.
EXCHANGES = {
    "lanes": "CUTS=1",
    "lanes_same_hub": "CUTS=1 HUB_FOR=2 BLOCKS=4",
    "lanes_pieces": "CUTS=1 PIECES=6 EACH=2 LATE BLOCKS=6",
    "lanes_two": "CUTS=2 PIECES=5 BLOCKS=6",
    "lanes_refused": "CUTS=1 REFUSALS=1 BLOCKS=7",
    "lanes_deaths": "CUTS=1 DEATHS=2 BLOCKS=5",
    "lanes_table": "CUTS=1 TABLE BLOCKS=7",
    "lanes_table_waits": "CUTS=1 TABLE WAITS BLOCKS=7",
    "lanes_slowly": "CUTS=1 PIECES=3 SLOWLY BLOCKS=7",
    "lanes_two_of_all": "CUTS=2",
    "lanes_same_hub_of_all": "CUTS=1 HUB_FOR=2",
    "lanes_late_of_all": "CUTS=1 LATE",
    "lanes_pieces_of_all": "CUTS=1 PIECES=6 EACH=2 LATE",
    "lanes_refused_of_all": "CUTS=1 REFUSALS=1",
    "lanes_deaths_of_all": "CUTS=1 DEATHS=2",
    "lanes_table_of_all": "CUTS=1 TABLE PIECES=3",
    "lanes_table_refused": "CUTS=1 TABLE REFUSALS=1 BLOCKS=7",
}
EXCHANGE_BUGS = {
    "BUG_HUB_FORGETS": "CUTS=1 BLOCKS=7",
    "BUG_ORDINAL_EARLY": "CUTS=1 HUB_FOR=2",
    "BUG_ONE_LACKS": "CUTS=1 BLOCKS=4",
    "BUG_ONE_MORE": "CUTS=1 BLOCKS=4",
    "BUG_KEPT_LEFT": "CUTS=1 BLOCKS=7",
    "BUG_KEPT_BACK_LEFT": "CUTS=1 BLOCKS=7",
    "BUG_READS_ON": "CUTS=1 BLOCKS=7",
    "BUG_ZEROS_COUNT": "CUTS=1 BLOCKS=7",
    "BUG_LARGEST_PIECE": "CUTS=1 BLOCKS=7",
    "BUG_ENDS_AT_OWN": "CUTS=1 BLOCKS=7",
    "BUG_ENDS_ONE_MISSING": "CUTS=1 BLOCKS=7",
    "BUG_GOES_ON": "CUTS=1 BLOCKS=4",
    "BUG_BEGINS_ON": "CUTS=1 BLOCKS=7",
    "BUG_NO_CANCEL": "CUTS=1 TABLE WAITS BLOCKS=7",
    "BUG_KEPT_GONE": "CUTS=1 DEATHS=1 BLOCKS=7",
    "BUG_RETURNS_EARLY": "CUTS=1 DEATHS=1 BLOCKS=7",
}

# Worlds of half a million states and more. To optimize takes two seconds, in which the others are searched several times, and
# makes the search a third faster.
LARGE = {"two_deaths", "join_first_two_die", "join_and_first_die", "join_and_second_die", "drain", "left_out", "left_out_three",
         "rescue_held", "rescue_cut_of_three", "rescue_told_cut", "rescue_told_cut_again", "rescue_told_cut_of_three",
         "rescue_told_of_three", "rescue_told_join", "rescue_told_behind", "rescue_join_cut", "rescue_join_both_die", "rescue_behind",
         "rescue_again", "rescue_again_rank_dies", "rescue_again_cut", "rescue_again_join", "lanes", "lanes_two_of_all",
         "lanes_same_hub_of_all", "lanes_late_of_all", "lanes_pieces_of_all", "lanes_refused_of_all", "lanes_deaths_of_all", "lanes_table_of_all",
         "lanes_table_refused"}

MODELS = {"epochs.pml": (WORLDS, BUGS, CYCLES), "exchanges.pml": (EXCHANGES, EXCHANGE_BUGS, {})}

# How states are remembered: packed, as they are where there are fewer (twice the memory, a quarter less time), or by some bits
# each, so that those which share them with another are left out.
EXHAUSTIVE = ("-DCOLLAPSE",), ("-w24",)
CYCLIC = (), ("-w24",)
SAMPLE = ("-DBITSTATE",), ("-w23",)


def check(model, folder, switches, memory, optimize, cycles):
    """How many errors spin finds, and how many states there are. No step of the model is marked as progress, so each
    cycle is one without, which is what spin looks for."""
    kept, size = memory
    defined = [f"-D{switch}" for switch in switches.split()]
    subprocess.run(["spin", "-a", *defined, str(FOLDER / model)], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([os.environ.get("CC", "cc"), optimize, "-w", "-DNP" if cycles else "-DSAFETY", *kept, "-DMEMLIM=6000", "-o", "pan", "pan.c"],
                   cwd=folder, check=True)
    output = subprocess.run(["./pan", *(["-l"] if cycles else []), "-m800000", *size], cwd=folder, capture_output=True, text=True).stdout
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"([\d.e+]+) states, stored", output)
    if not errors or not states or "max search depth too small" in output or "out of memory" in output:
        sys.exit(f"{switches}: the search did not come to its end:\n{output}")
    return int(errors[1]), states[1]


def main():
    if not shutil.which("spin"):
        print("skipped: spin is not installed")
        return 77
    chosen = [word for word in sys.argv[1:] if not word.startswith("--")]
    cycles = "--cycles" in sys.argv
    memory = SAMPLE if "--sample" in sys.argv else CYCLIC if cycles else EXHAUSTIVE
    bad = 0
    runs = []
    for model, (worlds, bugs, cycle_bugs) in MODELS.items():
        runs += [(model, name, switches, False) for name, switches in worlds.items()]
        runs += [(model, name, f"{switches} {name}", True) for name, switches in (cycle_bugs if cycles else bugs).items()]
    if cycles and not chosen:
        runs = [run for run in runs if "FAULTS=2" not in run[2] and not run[1].endswith("_of_all")]
    for model, name, switches, planted in runs:
        if chosen and name not in chosen:
            continue
        with tempfile.TemporaryDirectory() as folder:
            errors, states = check(model, folder, switches, memory, "-O2" if name in LARGE else "-O0", cycles)
        right = (errors > 0) == planted
        bad += not right
        print(f"{'ok' if right else 'WRONG'}: {name} ({switches}): {states} states{' as a sample' if memory is SAMPLE else ''}, "
              f"{'a cycle' if errors and cycles else 'an error' if errors else 'no cycle' if cycles else 'no error'}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
