#!/bin/bash
# One experiment on a Slurm cluster: an array of tasks, then one report.
#
#     scenarios/fleet/slurm.sh DIR SCENARIO... [options of `tccc run`]
#     scenarios/fleet/slurm.sh evaluate DIR FILE.bpf.c|ID [options of `tccc evaluate`]
#
# DIR is a folder that all nodes share. The same command again makes only what is missing.
# Variables: TASKS is the size of the array at most, else a task for each block. ARRAY names single blocks, such as 3,7-9.
# An evaluation has four tasks unless TASKS says otherwise. TCCC is the program. sbatch reads its own: SBATCH_PARTITION,
# SBATCH_ACCOUNT, SBATCH_TIMELIMIT, and SBATCH_CONSTRAINT for one CPU model.
set -euo pipefail
tccc=${TCCC:-tccc}
starts_max=3
array_max=1000 # Slurm's own limit, unless slurm.conf has another MaxArraySize

# On the node: makes every so many blocks. A block that is published already takes no time.
task() {
    local dir=$1 blocks=$2 tasks=$3 n code
    shift 3
    stopped=
    trap 'stopped=1' TERM
    "$tccc" doctor || true # for whoever reads the log of a task that failed
    mkdir -p "$dir/progress"
    for ((n = SLURM_ARRAY_TASK_ID; n <= blocks; n += tasks)); do
        code=0
        "$tccc" run "$@" --block "$n" --publish "$dir" --progress-file "$dir/progress/$n.json" || code=$?
        [[ $code == 0 ]] || again_or_end "$code"
        rm -f "$dir/progress/$n.json"
    done
}

# 5: the same once more. 3 and 4: another node. 2: no task can do it. A task that Slurm stopped is Slurm's to repeat.
again_or_end() {
    local code=$1 job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID excluded
    [[ -z $stopped ]] || exit "$code"
    [[ $code != 2 ]] || scancel "$SLURM_ARRAY_JOB_ID"
    ((code >= 3 && code <= 5 && ${SLURM_RESTART_COUNT:-0} + 1 < starts_max)) || exit "$code"
    [[ $code != 5 ]] || exec scontrol requeue "$job"
    excluded=$(scontrol --oneliner show job "$job" | sed -n 's/.* ExcNodeList=\([^( ]*\).*/\1,/p')
    trap '' TERM # the task is killed some seconds after it is requeued
    scontrol requeuehold "$job"
    scontrol update "JobId=$job" "ExcNodeList=$excluded$SLURMD_NODENAME"
    exec scontrol release "$job"
}

# At the front end: the plan says how many blocks there are, how long the longest takes, and whether it shares a node.
submit() {
    local dir plan blocks tasks seconds share job
    dir=$(mkdir -p "$1" && cd "$1" && pwd)
    shift
    plan=$("$tccc" run "$@" --dry-run -o json)
    blocks=$(grep -o '"n":' <<<"$plan" | wc -l)
    [[ $plan =~ \"blocks\":\[\{[^}]*\"seconds\":([0-9]+) ]]
    seconds=${BASH_REMATCH[1]}
    tasks=${TASKS:-$blocks}
    ((tasks <= blocks)) || tasks=$blocks
    ((tasks <= array_max)) || tasks=$array_max
    [[ -z ${ARRAY:-} ]] || tasks=$blocks
    share=(--exclusive)
    [[ $plan == *'"cores":null'* ]] || { share=(--ntasks=1 --cpus-per-task=1) && set -- "$@" --jobs 1; }
    job=$(sbatch --parsable --job-name=tccc --array="${ARRAY:-1-$tasks}" --requeue "${share[@]}" \
        --time=$((5 + seconds * (blocks / tasks + 1) / 20)) --output="$dir/task-%a.log" --open-mode=append \
        "$0" task "$dir" "$blocks" "$tasks" "$@")
    echo "no report yet: \`squeue --me\` and \`head $dir/progress/*\` show how far job $job is" >"$dir/report.log"
    sbatch --parsable --job-name=tccc-report --dependency="afterany:$job" --output="$dir/report.log" \
        --wrap "$tccc report '$dir' && $tccc report '$dir' --out '$dir/report.html'" >/dev/null
    echo "job $job: $blocks blocks in $tasks tasks; the report will be in $dir/report.html"
}

# On the node: measures every so many criteria of an evaluation. What is measured already takes no time.
task_of_evaluation() {
    local dir=$1 tasks=$2 code=0
    shift 2
    stopped=
    trap 'stopped=1' TERM
    "$tccc" evaluate "$@" --out "$dir" --shard "$SLURM_ARRAY_TASK_ID/$tasks" || code=$?
    [[ $code == 0 ]] || again_or_end "$code"
}

report_of_evaluation() {
    local dir=$1
    shift
    exec "$tccc" evaluate "$@" --out "$dir"
}

submit_evaluation() {
    local dir tasks=${TASKS:-4} job
    dir=$(mkdir -p "$1" && cd "$1" && pwd)
    shift
    # Refuses here what every task would refuse.
    "$tccc" evaluate "$@" --out "$dir" --shard "1/$tasks" --jobs 1 --dry-run | tail -1
    job=$(sbatch --parsable --job-name=tccc --array="1-$tasks" --requeue --ntasks=1 --cpus-per-task=1 \
        --output="$dir/task-%a.log" --open-mode=append "$0" task_of_evaluation "$dir" "$tasks" "$@" --jobs 1)
    echo "no report yet: \`squeue --me\` and \`tail $dir/task-*.log\` show how far job $job is" >"$dir/report.log"
    sbatch --parsable --job-name=tccc-report --dependency="afterany:$job" --output="$dir/report.log" \
        "$0" report_of_evaluation "$dir" "$@" >/dev/null
    echo "job $job: $tasks tasks; the report will be in $dir/report.html"
}

case ${1:-} in
task) shift && task "$@" ;;
task_of_evaluation) shift && task_of_evaluation "$@" ;;
report_of_evaluation) shift && report_of_evaluation "$@" ;;
evaluate) shift && submit_evaluation "$@" ;;
"" | -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0" && exit 2 ;;
*) submit "$@" ;;
esac
