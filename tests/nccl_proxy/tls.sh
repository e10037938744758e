#!/usr/bin/env bash
# tls.sh DRIVER
# Connections between processes of a job over TLS.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
umask 077
# OpenSSL is part of the plugin, and what it keeps for ever goes with it: that is no leak of ours. unit.test_net_set_up
# and unit.test_tls look for those.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
echo open-sesame >"$folder/token"
SUMMAND_TLS=1 SUMMAND_TOKEN_FILE=$folder/token "$1" --version=12 properties ring_of_sizes groups unmatched_sends \
	registrations all_to_all many_connections too_long killed_peer close_pending
