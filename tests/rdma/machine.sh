#!/usr/bin/env bash
# Runs the scenarios of tests/rdma/inside one after another in one machine of tools/rdma-vm, because each start
# takes seconds:
#   engine         the tests of lanes, and what transports can spoil of those of the engine, over RDMA: sums in rank
#                  order, several communicators and little memory, ranks that disagree or leave, servers that are lost
#   failures       what goes wrong on RDMA lanes while operations are going on: every end is named and nothing hangs;
#                  which transport a lane takes, and why; what an idle server costs
#   job            the digits job with its reduction server over RDMA: it trains as over TCP, to the same weights
#   fabric         a network that drops RDMA's packets, or the large ones, small and large MTUs, and memory windows, by defaults; tools/rdma-fabric has more
#   nccl_collnet   CollNet: scenarios of tests/nccl_proxy/collnet_driver.c with servers on an RDMA device
#   nccl_rails     CollNet over two cards of each node: each carries its share over RDMA, and reaches the server by its own network
#   nccl_net       the NCCL plugin's point-to-point network: the driver of functional.nccl_net, and what it does
#                  where the other end has no RDMA
#
#   machine.sh SCENARIO...         runs them, and keeps what each said and its exit code
#   machine.sh --result SCENARIO   shows what it said, and ends as it did; asked again of one that failed, it runs that
#                                  one again, in a machine of its own
set -uo pipefail

build=${SUMMAND_BUILD:?must name the build directory}
kept=$build/tests/rdma_machine
inside=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/inside

result_of() {
	cat "$kept/$1.log"
	exit "$(cat "$kept/$1.code")"
}

again=no
if [ "${1:?must name a scenario}" = --result ]; then
	shift
	if [ ! -e "$kept/$1.failed" ]; then
		case $(cat "$kept/$1.code") in 0 | 77) ;; *) touch "$kept/$1.failed" ;; esac
		result_of "$1"
	fi
	again=yes
	exec 9>"$kept/lock"
	flock 9
fi

engine_tests=(test_lane test_allreduce test_operations test_leaving test_failures test_lost_server test_wire)

needs() {
	printf -- '--program=%s\n' "${@/#/$build/}"
}

arguments_of() {
	case $1 in
	engine) needs "${engine_tests[@]/#/tests/}" ;;
	fabric) needs bin/summand-perf bin/summand-reduction-server ;;
	failures) needs bin/summand-perf bin/summand-reduction-server && echo --program=setpriv ;;
	job)
		needs bin/summand bin/summand-agent bin/summand-digits bin/summand-reduction-server
		echo "--add=$build/share"
		;;
	nccl_collnet) needs tests/collnet_driver bin/summand-reduction-server && echo "--add=$build/lib" ;;
	nccl_rails) needs tests/vertex_worker bin/summand-reduction-server && echo "--add=$build/lib" ;;
	nccl_net) needs tests/net_driver && echo "--add=$build/lib" ;;
	esac
}

mapfile -t arguments < <(for scenario; do arguments_of "$scenario"; done | sort -u)
limit=1300 # seconds; 770 were needed on a slow host beside five other tests
[ "$again" = yes ] || rm -rf "$kept"
mkdir -p "$kept"
# A queue pair is tried for 30 s, and waited for 21 s; inside/failures has less patience, and inside/fabric the defaults.
# Before other tests, where that may be said: a machine whose processors stand still for seconds loses all its lanes.
favoured=()
if [ "$(nice -n -10 nice 2>/dev/null || echo 0)" -lt 0 ]; then
	favoured=(nice -n -10)
fi
"${favoured[@]}" "$SUMMAND_SOURCE/tools/rdma-vm" --memory=4096 --start=200 --timeout="$limit" "${arguments[@]}" "--add=$inside" --env=BUILD="$build" \
	--env=SUMMAND_BUILD="$build" --env=SUMMAND_RDMA_RETRIES=6 --env=SUMMAND_RDMA_TIMEOUT=20 --env=ENGINE_TESTS="${engine_tests[*]}" \
	-- "$inside/all" "$@" > >(tee "$kept/log") 2> >(tee "$kept/errors" >&2)
result=$?
wait
if [ "$result" = 77 ]; then # no machine can be made here
	for scenario; do
		cp "$kept/errors" "$kept/$scenario.log"
		echo 77 >"$kept/$scenario.code"
	done
else
	# inside/all puts "@ SCENARIO" before what each says, and "@ CODE" after it.
	awk -v kept="$kept" '
		/^@ [0-9]+$/ { print $2 >(kept "/" scenario ".code"); scenario = ""; next }
		/^@ / { scenario = $2; next }
		scenario { print >(kept "/" scenario ".log") }' "$kept/log"
fi
[ "$again" = no ] || result_of "$1"
exit "$result"
