#!/bin/sh
# Each task records where it starts, and has its own scratch folder.
case "$* " in
*"--block "*)
    export TMPDIR="$MARKS/tmp-$SLURM_ARRAY_TASK_ID"
    mkdir -p "$TMPDIR" && echo "$SLURM_ARRAY_TASK_ID $SLURMD_NODENAME" >> "$MARKS/starts"
    # node1 refuses all tasks. Task 3 is interrupted at its first start. Task 4 hangs until its node is lost.
    case "@FAULTS@$SLURMD_NODENAME $SLURM_ARRAY_TASK_ID" in
    "placednode1 "*) echo "node1 lacks something" >&2 && exit 4 ;;
    placed*" 3") [ ! -e "$MARKS/again" ] && touch "$MARKS/again" && echo "interrupted" >&2 && exit 5 ;;
    placed*" 4") [ ! -e "$MARKS/hangs" ] && echo "$SLURMD_NODENAME" > "$MARKS/hangs" && sleep 600 ;;
    esac
    ;;
esac
exec @TCCC@ "$@"
