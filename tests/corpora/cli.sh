#!/usr/bin/env bash
# The program `summand` as a user meets it: help, suggestions, standard input, exit codes, quoting.

here=$(cd "$(dirname "$0")" && pwd)
summand="${SUMMAND_BUILD:?must name the build directory}/bin/summand"
failures=0

fail() {
	echo "FAILED: $*"
	failures=$((failures + 1))
}

# says EXIT_CODE TEXT COMMAND...: the command exits so, and TEXT is somewhere in what it says; pages of help are wrapped,
# so the end of a line is the space that it may stand for.
says() {
	code=$1
	text=$2
	shift 2
	got=$("$summand" "$@" 2>&1 </dev/null)
	result=$?
	[ "$result" = "$code" ] || fail "summand $*: must exit with $code, got $result: $got"
	case $got${got//$'\n'/ } in
	*"$text"*) ;;
	*) fail "summand $*: must say \"$text\", got: $got" ;;
	esac
}

cd "$here/valid" || exit 1
says 0 "summand 0." --version
says 0 "custom-jobs" --help
says 0 "validate" custom-jobs --help
says 0 "Usage: summand custom-jobs validate SPEC" custom-jobs validate --help
says 0 "--format" custom-jobs plan --help
says 0 "--replica" custom-jobs env --help
says 0 "21 replicas" ai custom-jobs validate reduction_server.json
says 2 "a command is needed" custom-jobs
says 2 "did you mean \`summand custom-jobs\`?" custom-job
says 2 "did you mean \`summand custom-jobs validate\`?" custom-jobs valdate
says 2 "unknown command; \`summand --help\` lists them" frobnicate
says 0 "custom-jobs" -h
says 0 "validate" custom-jobs help
# Pages are had by `help` too, also with less words; flags of jobs have one of their own.
says 0 "Usage: summand custom-jobs describe JOB" help custom-jobs describe
says 0 "Usage: summand custom-jobs describe JOB" help describe
says 0 "Usage: summand custom-jobs describe JOB" custom-jobs help describe
says 0 "Usage: summand custom-jobs COMMAND" ai help custom-jobs
says 0 "Follow jobs:" custom-jobs --help
says 0 "--worker-pool-spec=KEY=VALUE,..." help job-flags
says 0 "\`summand help job-flags\` lists them" custom-jobs create --help
says 0 "Exit codes: 0 the job succeeded" custom-jobs local-run --help
for verb in validate plan local-run create; do
	says 0 "it must be a HyperparameterTuningJob, or a TrainingPipeline of one." hp-tuning-jobs $verb --help
done
says 0 "print the job at the end" hp-tuning-jobs local-run --help
says 0 "print the job as it has been taken" hp-tuning-jobs create --help
says 0 "how a job's trials go on" hp-tuning-jobs stream-logs --help
for verb in describe stream-logs wait cancel delete; do
	says 1 "no-such: there is no such job" hp-tuning-jobs $verb no-such --quiet --region=r --project=p
done
says 2 "did you mean \`summand help job-flags\`?" help jobflags
says 2 "did you mean \`summand custom-jobs describe\`?" help descibe
says 2 "did you mean \`summand custom-jobs stream-logs\`?" stream-log
says 2 "--dry-run: unknown option; \`summand --help\` lists them" --dry-run
for verb in validate plan env local-run create; do
	case $("$summand" custom-jobs $verb --help) in
	*--worker-pool-spec=*) fail "$verb --help must leave the flags of jobs to their own page" ;;
	esac
done
says 0 "Usage: summand custom-jobs plan" custom-jobs plan -h
# A runtime is looked for before anything is started.
says 2 'summand: --container-runtime: must be podman, docker, apptainer or pyxis, got "dockr"; did you mean docker?' \
	custom-jobs local-run skipped_pool.yaml --container-runtime=dockr
PATH=/nowhere says 2 "summand: --container-runtime=apptainer: not found on PATH" custom-jobs local-run \
	skipped_pool.yaml --container-runtime=apptainer
says 2 "summand: --container-runtime=pyxis: must come with --engine=slurm" custom-jobs local-run \
	skipped_pool.yaml --container-runtime=pyxis
PATH=/nowhere says 0 "displayName" custom-jobs local-run skipped_pool.yaml --container-runtime=apptainer --dry-run
# What gcloud and az have, and what is here in its place.
says 2 "a job is needed" ai custom-jobs create --region=us-central1
says 1 "no-such: there is no such job" custom-jobs stream-logs no-such
says 1 "no-such: there is no such job" custom-jobs describe no-such
says 1 "no-such: there is no such job" custom-jobs cancel no-such
says 2 "a job is needed" ai hp-tuning-jobs create
says 2 "prints what the first trial gets" hp-tuning-jobs env
says 2 "must be a HyperparameterTuningJob" hp-tuning-jobs plan skipped_pool.yaml
says 2 "takes a command job of Azure ML" ml job create --file job.yml
says 2 "did you mean \`summand custom-jobs local-run\`?" local-run
says 2 "did you mean --format?" custom-jobs plan --fromat=json reduction_server.json
says 2 "must be one of json, yaml, flattened" custom-jobs plan --format=xml reduction_server.json
says 2 "those of your program come after --" custom-jobs local-run skipped_pool.yaml --epochs=3
says 2 "one SPEC is needed, got 2" custom-jobs validate reduction_server.json skipped_pool.yaml
says 2 "No such file or directory" custom-jobs validate nowhere.json
says 2 "must be a replica of skipped_pool.yaml such as workerpool0-0" custom-jobs env skipped_pool.yaml \
	--replica=workerpool1-0
says 2 "<stdin>:1:1: must hold a job" custom-jobs validate -

# The specs that we ship are valid.
for spec in "$here"/../../specs/jobs/*.json "$here"/../../specs/jobs/recipes/*.[jy]*; do
	says 0 "is valid" custom-jobs validate "$spec"
done

# Standard input is JSON or YAML by what it looks like.
"$summand" custom-jobs validate - <reduction_server.json >/dev/null || fail "JSON on standard input"
"$summand" custom-jobs validate - <skipped_pool.yaml >/dev/null || fail "YAML on standard input"

# What is quoted steers no terminal: 8-bit orders (U+009B), text turned around (U+202E), ends of lines (U+2028).
bad=$'x\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\ny'
spec=$(mktemp)
printf '{"displayName": "%s", "workerPoolSpecs": [], "%s": 1}' "${bad%$'\n'y}" "${bad%$'\n'y}" >"$spec"
shows() {
	got=$("$summand" "$@" 2>&1 </dev/null)
	case $got in
	*$'\xc2\x9b'* | *$'\xe2\x80\xae'* | *$'\xe2\x80\xa8'* | *$'\n'y*) fail "$1 $2: must quote no raw controls, got: $got" ;;
	*x????????*) ;;
	*) fail "$1 $2: must quote what is wrong, got: $got" ;;
	esac
}
shows "$bad"
shows custom-jobs "$bad"
shows custom-jobs plan "$bad"
shows custom-jobs plan --format="$bad" reduction_server.json
shows custom-jobs validate "$spec"
shows custom-jobs env reduction_server.json --replica="$bad"
shows custom-jobs local-run reduction_server.json --container-runtime="$bad"
shows custom-jobs plan reduction_server.json --"$bad"
rm "$spec"

# What a shell makes of `env` is exactly what the JSON says.
value=$(eval "$("$summand" custom-jobs env every_field.json --replica=workerpool0-0)"
	printf '%s.' "$GREETING")
[ "$value" = 'größe "日本"
.' ] || fail "a quoted value must come back as it was, got: $value"
value=$(eval "$("$summand" custom-jobs env skipped_pool.yaml --replica=workerpool0-0)"
	printf '%s' "$GREETING")
[ "$value" = "it's \$(RANK) of 579f408941" ] || fail "a quote must come back, got: $value"

# A command job of Azure ML runs: its shell gets its own dollars, its outputs are folders.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
"$summand" custom-jobs local-run azure_run.yaml --job-dir="$scratch/job" >"$scratch/said" 2>&1 ||
	fail "an Azure ML job must run: $(cat "$scratch/said")"
grep -qx 'two times 2 is 4, True, 1' "$scratch/job/logs/workerpool0-0.log" ||
	fail "an Azure ML job must have said so: $(cat "$scratch"/job/logs/*)"
[ "$(cat "$scratch/job/output/result/file")" = made ] || fail "an output must be in its folder"

# A trial's whole number is one to its program, however it is written; and a double is one.
says 0 "	--layers=3 --rate=2.0" custom-jobs local-run tuning_numbers.yaml --job-dir="$scratch/tuning" --stream-logs

# --format prints the job at the end, alone on standard output, and what it prints is a spec again.
job=$("$summand" custom-jobs local-run azure_run.yaml --job-dir="$scratch/formatted" --format=json \
	2>"$scratch/told") || fail "an Azure ML job must run: $(cat "$scratch/told")"
[ "$(cat "$scratch/formatted/state.json")" ] || fail "a job must have its records"
printf %s "$job" >"$scratch/job.json"
says 0 "is valid" custom-jobs validate "$scratch/job.json"
grep -q "succeeded in" "$scratch/told" || fail "progress must be on standard error"
got=$("$summand" custom-jobs local-run --worker-pool-spec=machine-type=a,container-image-uri=b \
	--command=sh,-c --args='exit 3' --job-dir="$scratch/failed" \
	--format='value(state,displayName,error.code)' 2>"$scratch/told")
result=$?
[ "$result $got" = "1 JOB_STATE_FAILED	custom-job	2" ] ||
	fail "a failed job must be printed, got $result $got: $(cat "$scratch/told")"
[ -z "$("$summand" custom-jobs local-run nowhere.yaml --format=json 2>/dev/null)" ] ||
	fail "what was not run must not be printed"

# torch-run: ranks of one node or of several, GPUs as TorchDistributor deals them, the end of the
# output when one process fails.
cat >"$scratch/train.py" <<'EOF'
import os, sys
rank, names = int(os.environ["RANK"]), ("WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK")
print("rank", rank, *(os.environ[name] for name in names), os.environ["CUDA_VISIBLE_DEVICES"], sys.argv[1:])
if sys.argv[1:] == ["fail"] and rank == 1:
    sys.exit("rank 1 gives up")
EOF
torch_run() {
	torch_job=$((${torch_job:-0} + 1))
	says "$1" "$2" torch-run --job-dir="$scratch/torch$torch_job" "${@:3}"
}
# shellcheck disable=SC2016 # The dollars are the script's.
torch_run 0 "rank 1 2 1 2 0  ['a b', '\$(RANK)\$\$']" --num-processes=2 --use-gpu=false -- \
	"$scratch/train.py" 'a b' '$(RANK)$$'
torch_run 0 "rank 1 2 0 1 1  []" --num-processes=2 --use-gpu=false --local-mode=false -- "$scratch/train.py"
torch_run 1 "failed. The last 100 lines of the task output are included below:" --num-processes=2 \
	--use-gpu=false -- "$scratch/train.py" fail
torch_run 1 "rank 1 gives up" --num-processes=2 --use-gpu=false -- "$scratch/train.py" fail
export CUDA_VISIBLE_DEVICES=3,5
torch_run 0 "it was reset to that" --num-processes=3 -- "$scratch/train.py"
torch_run 0 "rank 1 2 1 2 0 3,5 []" --num-processes=2 -- "$scratch/train.py"
torch_run 0 "rank 1 2 0 1 1 5 []" --num-processes=2 --local-mode=false -- "$scratch/train.py"
torch_run 2 "must be at most the number of GPUs, which is 2" --num-processes=3 --local-mode=false -- x
CUDA_VISIBLE_DEVICES='' torch_run 2 "GPUs were unable to be found" -- x
unset CUDA_VISIBLE_DEVICES
torch_run 2 "a script is needed" --use-gpu=false
# As Python writes a truth value, and as gcloud does.
for no in --use-gpu=False --no-use-gpu --use-gpu=0 "--use-gpu FALSE"; do
	# shellcheck disable=SC2086 # One of them is two words.
	torch_run 0 "rank 0 1 0 1 0  []" $no --local-mode -- "$scratch/train.py"
done
torch_run 0 "rank 1 2 0 1 1  []" --num-processes=2 --no-use-gpu --no-local-mode -- "$scratch/train.py"
torch_run 2 "--use-gpu: must be true or false, got \"no\"" --use-gpu=no -- "$scratch/train.py"
CUDA_VISIBLE_DEVICES='' torch_run 2 "GPUs were unable to be found" --local-mode --use-gpu -- x
torch_run 0 "rank 0 1 0 1 0  ['--lr', '0.1', '--help']" --no-use-gpu "$scratch/train.py" --lr 0.1 --help
torch_run 2 "did you mean --use-gpu?" --no-use-gpus -- x
torch_run 2 "must be a whole number from 1 to 1024" --num-processes=0 -- x
torch_run 0 "LOCAL_WORLD_SIZE" --dry-run --use-gpu=false -- x

# A plan that could not be written is not a success.
if [ -w /dev/full ]; then
	"$summand" custom-jobs plan reduction_server.json >/dev/full 2>&1
	[ $? = 1 ] || fail "a full disk must be a failure"
fi

[ "$failures" = 0 ]
