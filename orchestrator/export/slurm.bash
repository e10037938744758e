
# Where the job's worker pools are: the n-th of them is component n of the job. Replicas of one host share its name.
declare -A place # @NAME@ in the texts above
declare -A group # a pool's component; empty where the job has only one
port_base=${SUMMAND_PORT_BASE:-$((20000 + SLURM_JOB_ID % 100 * 100))}
m=$((port_base + 99)) # MASTER_PORT
place[output_dir]=${SUMMAND_OUTPUT_DIR:-$SLURM_SUBMIT_DIR/$job-$SLURM_JOB_ID}
place[slurm_job]=$SLURM_JOB_ID-${SLURM_RESTART_COUNT:-0} # which no other run has, nor this one when it is requeued
token=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')

say() {
	echo "$job: $*" >&2
}

# Variables of the shell in which sbatch was called, or of another job there, are defaults of the commands below: they
# would select other jobs, and ask for other steps.
forget_defaults() {
	local name

	for name in $(compgen -e); do
		case $name in
		SLURM_CONF* | SLURM_JWT | SLURM_WORKING_CLUSTER | SLURM_CLUSTER_NAME) ;;
		SLURM_JOB_* | SLURM_JOBID* | SLURM_HET_* | SLURM_SUBMIT_* | SLURM_CPUS_PER_TASK*) ;;
		SLURM_* | SRUN_* | SQUEUE_* | SCANCEL_* | SCONTROL_*) unset "$name" ;;
		esac
	done
}

# Names of hosts as Slurm reaches them, which programs may not know by the names that Slurm has for them.
find_places() {
	local number=0 component=0 pool list host index address
	local -A reached

	for pool in "${pools[@]}"; do
		list=SLURM_JOB_NODELIST_HET_GROUP_$component
		group[$pool]=$component
		if [ "${#pools[@]}" = 1 ]; then
			list=SLURM_JOB_NODELIST
			group[$pool]=
		fi
		component=$((component + 1))
		reached=()
		while read -r host address; do
			reached[$host]=$address
		done < <(scontrol --oneliner show node "${!list}" | sed -n 's/^NodeName=\([^ ]*\) .* NodeAddr=\([^ ]*\) .*/\1 \2/p')
		index=0
		while read -r host; do
			place[workerpool$pool-$index.host]=${reached[$host]:-$host}
			place[workerpool$pool-$index.port]=$((port_base + number % 99))
			index=$((index + 1))
			number=$((number + 1))
		done < <(scontrol show hostnames "${!list}")
		if [ "$index" != "${replicas[$pool]}" ]; then
			say "workerpool$pool: must have ${replicas[$pool]} nodes, got $index: ${!list}"
			exit 1
		fi
	done
}

# fill TEXT: puts what stands for @TERM@ and @NAME@ in its places, into $REPLY. A name may contain a term. Texts of large
# jobs have thousands of names, so they are gone through once.
fill() {
	local term='@([0-9*+-]*[ipm][0-9ipm*+-]*)@' k=1 count
	local -a parts

	REPLY=$1
	while [[ $REPLY =~ $term ]]; do
		REPLY=${REPLY//"${BASH_REMATCH[0]}"/$((BASH_REMATCH[1]))}
	done
	mapfile -t -d @ parts <<<"$REPLY@"
	count=$((${#parts[@]} - 1)) # the last is the end of the line
	REPLY=${parts[0]}
	while [ "$k" -lt "$count" ]; do
		if [ $((k + 1)) -lt "$count" ] && [ -n "${parts[$k]}" ] && [ -n "${place["${parts[$k]}"]:-}" ]; then
			REPLY+=${place["${parts[$k]}"]}${parts[$((k + 1))]}
			k=$((k + 2))
		else
			REPLY+=@${parts[$k]}
			k=$((k + 1))
		fi
	done
}

# pass_on: the task is asked to end. Where Slurm has control groups it asks this shell alone, elsewhere the command too.
pass_on() {
	if [ -z "$asked" ] && [ -n "$child" ] && [ "$asks_shells" = yes ]; then
		kill -TERM "$child"
	fi
	asked=yes
}

# One process of a pool: task POOL. Its step has sent it this script's variables and functions.
task() {
	local code deadline name text i p # the last two are in terms
	local child='' asked='' tasks=${SLURM_NTASKS:-1} step=$component.${SLURM_STEP_ID:-0}
	local -a words=()

	# shellcheck disable=SC2034
	i=$((SLURM_PROCID / processes[$1]))
	# shellcheck disable=SC2034
	p=$((SLURM_PROCID % processes[$1]))
	scratch=$(mktemp -d "${TMPDIR:-/tmp}/summand.XXXXXX") || exit 1
	trap 'rm -rf "$scratch"' EXIT
	trap pass_on TERM # the command decides when it ends
	place[token_file]=$scratch/token
	(umask 077 && echo "$token" >"$scratch/token") || exit 1
	for name in $(compgen -e); do
		if withheld "$name"; then
			unset "$name"
		fi
	done
	"workerpool$1"
	for text in "${variables[@]}"; do
		fill "$text"
		export "${REPLY?}"
	done
	for text in "${command[@]}"; do
		fill "$text"
		words+=("$REPLY")
	done
	"${words[@]}" </dev/null &
	child=$!
	if [ -n "$asked" ]; then
		kill -TERM "$child"
	fi
	while kill -0 "$child" 2>/dev/null; do
		wait "$child"
	done
	wait "$child"
	code=$?
	if [ "$code" = 143 ]; then
		deadline=$((SECONDS + 2)) # Slurm asks a step's processes one by one, this shell perhaps after the command
		while [ -z "$asked" ] && [ "$SECONDS" -lt "$deadline" ]; do
			sleep 0.1
		done
	fi
	case $asked$code in
	yes143 | yes-1) # a wait that a signal has ended may know no code
		code=1 # srun tells the largest code of all tasks, which is to be that of one that has failed by itself
		;;
	esac
	if [ "$code" != 0 ] && [ -z "$asked" ] && [ "$tasks" -gt 1 ]; then
		scancel --signal=TERM "$step" 2>/dev/null # the others, whom Slurm kills when this one ends
		deadline=$((SECONDS + 3))
		while [ "$SECONDS" -lt "$deadline" ]; do
			sleep 0.2
		done
	fi
	exit "$code"
}

# What a step's tasks read: on standard input, so that nobody sees the token and no length is too long.
program() {
	local component=SLURM_JOB_ID${group[$1]:+_HET_GROUP_${group[$1]}}

	echo "component=${!component}"
	declare -p place processes token m asks_shells
	declare -f withheld fill pass_on task "workerpool$1"
	echo "task $1"
}

# start POOL: its processes, as a step whose end is a line on descriptor $ends. The chief writes to this script's
# output, others to files of their own.
start() {
	local pool=$1
	local cpus=SLURM_CPUS_PER_TASK${group[$pool]:+_HET_GROUP_${group[$pool]}}
	local -a options=(--kill-on-bad-exit=1 --distribution=block "--nodes=${replicas[$pool]}"
		"--ntasks-per-node=${processes[$pool]}" "--ntasks=$((replicas[pool] * processes[pool]))")

	if [ -n "${group[$pool]}" ]; then
		options+=("--het-group=${group[$pool]}")
	fi
	if [ -n "${!cpus:-}" ]; then
		options+=("--cpus-per-task=${!cpus}") # which srun does not take over
	fi
	if [ "$pool" != 0 ]; then
		options+=("--output=$job-$SLURM_JOB_ID-workerpool$pool-%t.out")
	fi
	{
		program "$pool" | srun "${options[@]}" bash -s
		echo "$pool $?" >&"$ends"
	} &
	running[$pool]=yes
}

# step_signal SIGNAL POOL...: to all processes of the steps that run. A signal to srun would kill its step, and one to
# the job this script.
step_signal() {
	local signal=$1 pool id step

	shift
	for pool in "$@"; do
		if [ -n "${running[$pool]:-}" ]; then
			id=SLURM_JOB_ID${group[$pool]:+_HET_GROUP_${group[$pool]}}
			for step in $(squeue --noheader --steps --jobs="${!id}" --format=%i); do
				case $step in
				"${!id}".*[!0-9]*) ;;
				"${!id}".*) scancel --signal="$signal" "$step" ;;
				esac
			done
		fi
	done
}

# next_end SECONDS: waits for a step's end; then $pool and $code are its. Fails when there is none. The time may be over
# in the middle of a line.
next_end() {
	local part

	if ! IFS='' read -r -t "$1" -u "$ends" part; then
		begun+=$part
		return 1
	fi
	read -r pool code <<<"$begun$part"
	begun=''
	unset "running[$pool]"
}

# finish SECONDS POOL...: lets steps end by themselves, then asks them (or does what $signals says), then ends them.
finish() {
	local signal deadline one left

	deadline=$((SECONDS + $1))
	shift
	for signal in ${signals:-TERM KILL} ''; do
		while :; do
			left=
			for one in "$@"; do
				left+=${running[$one]:-}
			done
			if [ -z "$left" ]; then
				return
			fi
			next_end 0.2 || [ "$SECONDS" -lt "$deadline" ] || break
		done
		if [ -n "$signal" ]; then
			step_signal "$signal" "$@"
		fi
		deadline=$((SECONDS + grace))
	done
	say "steps have not ended: $*"
}

# fail CODE WORD...: ends what runs and the job.
fail() {
	local status=$1

	shift
	say "$*"
	finish 0 "${pools[@]}"
	exit "$status"
}

# leave: Slurm has asked this script to end: with its job, or some time before (sbatch's --signal=B:TERM@SECONDS). What
# replicas have then is $grace, or Slurm's KillWait where that is shorter.
leave() {
	local state

	read -r state < <(squeue --noheader --jobs="$SLURM_JOB_ID" --format=%T 2>/dev/null)
	say "Slurm ends the job: replicas have $grace s at most"
	if [ "${state:-}" = RUNNING ]; then
		step_signal TERM "${pools[@]}" # else Slurm has done so
	fi
	signals=KILL finish "$grace" "${pools[@]}"
	exit 143
}

# Until each reduction server takes connections.
await_servers() {
	local index=0 host port deadline=$((SECONDS + ready_timeout))

	while [ "$index" -lt "${replicas[2]}" ]; do
		host=${place[workerpool2-$index.host]}
		port=${place[workerpool2-$index.port]}
		if (exec 3<>"/dev/tcp/$host/$port") 2>/dev/null; then
			index=$((index + 1))
			continue
		fi
		if [ -n "$told" ]; then
			leave
		fi
		if next_end 0.2; then
			fail 1 "workerpool$pool: must serve until the job ends, ended with $code"
		fi
		if [ "$SECONDS" -ge "$deadline" ]; then
			fail 1 "workerpool2-$index: must take connections at $host:$port within $ready_timeout s"
		fi
	done
}

forget_defaults
declare -A running # the pools whose steps have not ended
exec {ends}<> <(:)
begun='' # a line of it
told='' # by Slurm, to end
trap told=yes TERM
asks_shells=no # of a step's processes, and not their children
case $(scontrol show config) in
*proctrack/cgroup*) asks_shells=yes ;;
esac
find_places
if [ "$has_output" = yes ]; then
	mkdir -p "${place[output_dir]}" || exit 1
fi
if [ -n "${replicas[2]:-}" ]; then
	start 2
	if [ "$servers" = yes ]; then
		await_servers
	fi
fi
for pool in 3 1 0; do
	if [ -n "${replicas[$pool]:-}" ]; then
		start "$pool"
	fi
done

missing=" ${success[*]} " # the pools whose success is the job's
while [ "$missing" != " " ]; do
	pool=''
	next_end 1 || true
	if [ -n "$told" ]; then
		leave
	fi
	if [ -z "$pool" ]; then
		continue
	fi
	if [ "$code" != 0 ] || { [ "$pool" = 2 ] && [ "$servers" = yes ]; }; then
		if [ "$pool" != 0 ] && [ "$code" = 0 ]; then
			code=1
		fi
		fail "$code" "workerpool$pool: its step has ended with $code"
	fi
	missing=${missing/ $pool / }
done
finish "$grace" 1 3
finish 0 2
exit 0
