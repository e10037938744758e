#!/bin/sh
# Several network cards in each machine, without NCCL: ranks' lanes take turns among a server's addresses, so that two
# cards carry twice as much by defaults; and where a card has no carrier, of a server or of a rank, or a firewall drops what goes there, they take the others.
# tools/bench-rails checks it.
set -e
rails() {
	"$SUMMAND_SOURCE/tools/bench-rails" --build="$SUMMAND_BUILD" --program=perf "$@"
}
rails --rails=1,2 --rate=50mbit --size=1048576 --times=30 --growth=0.7
rails --rails=2 --cut=server,worker --rate=none --size=1048576 --times=10
# A firewall says nothing: a lane tries the other card after 2 s, and not after TCP's 20.
rails --rails=2 --cut=silent --rate=none --size=1048576 --times=10 --within=12
