#!/bin/sh
# Two and four network cards in each machine: every one of them carries its share of an all-reduce, and the network of
# the machines' management nothing of it. tools/bench-rails checks it, and is not asked for a time.
exec "$SUMMAND_SOURCE/tools/bench-rails" --build="$SUMMAND_BUILD" --rails=2,4 --rate=none --size=2097152 --times=3
