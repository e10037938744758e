"""One cell, played once in a network of its own."""

import sys

from by_hand import ByHand
from cells import JOB_PROCESSES, MOMENTS
from in_job import InJob
from stage import Broken, enter_network


def main(process, moment, fault, seed, build, folder):
    """Exit code: 0 with how long it took; 1 with what did not hold; 77 where this machine cannot play it, or had no processor for it."""
    if not enter_network():
        print("a network of its own needs root and ip")
        return 77
    assert moment in MOMENTS
    kind = InJob if process in JOB_PROCESSES else ByHand
    try:
        play = kind((process, moment, fault), seed, build, folder)
        play.run()
    except Broken as broken:
        away = play.witness.away()
        print(f"a processor was away for {away:.1f} s, so this is not judged: {broken}" if away else broken)
        return 77 if away else 1
    print("; ".join(play.times))
    return 0


if __name__ == "__main__":
    words = sys.argv[1:]
    sys.exit(main(*words) if words else 0 if enter_network() else 77)  # without words: whether there can be a network
