#!/usr/bin/env bash
# usage.sh SIMULATE: a wrong command line is refused with its reason and exit code 2, before any history is run.
set -euo pipefail

# says TEXT WORD...
says() {
	local text=$1 said status=0

	shift
	said=$("$simulate" "$@" 2>&1) || status=$?
	if [ "$status" != 2 ] || [ "$said" != "$text" ]; then
		echo "usage: simulate $*: must say '$text' and exit with 2, got '$said' and $status"
		exit 1
	fi
}

simulate=$1
says 'simulate: must be a kind or a seed, got "soon"' soon
says 'simulate: the last seed must be at least 3, the first, got 2' 3 2
says 'simulate: the last seed must be at least 71000001, the first, got 260' changes 71000001 260
says 'simulate: must be a kind or a seed, got "chnges"' chnges 1 3
says 'simulate: must be a kind or a seed, got "-1"' changes -1
says 'simulate: must have at most two seeds, got 3' 1 2 3
