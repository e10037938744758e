#!/bin/sh
# Two and four network cards in each machine: every one of them carries its share of an all-reduce, and the network of
# the machines' management nothing of it; and on slow links, where these are what limits, more cards make it faster.
# tools/bench-rails checks it.
set -e
rails() {
	"$SUMMAND_SOURCE/tools/bench-rails" --build="$SUMMAND_BUILD" --times=3 "$@"
}
rails --rails=2,4 --rate=none --size=2097152
rails --rails=1,2,4 --rate=20mbit --size=1048576 --growth=0.7
