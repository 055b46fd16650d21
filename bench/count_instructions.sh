#!/usr/bin/env bash
# Instructions that one eager enqueue and one Graph::launch take on the calling thread, HIP calls included, where the
# processor doesn't count them for `fmhax bench`: valgrind does (Debian package valgrind).
# Usage: bench/count_instructions.sh [PROBLEM FLAGS of `fmhax bench`]     after cmake --build --preset host
set -euo pipefail
cd "$(dirname "$0")/.."

fmhax=build/host/bin/fmhax
[[ -x $fmhax ]] || { echo "count_instructions.sh: $fmhax is missing; run cmake --build --preset host" >&2; exit 1; }
command -v valgrind >/dev/null || { echo "count_instructions.sh: valgrind is missing" >&2; exit 1; }
[[ $# -gt 0 ]] || set -- --group --seqlens-q 129,16,16,16 --total-q 1024 --total-k 1024 --nhead-q 1 --hdim-q 32

iterations=50
calls=$((iterations + 1)) # one more is made to count its HIP calls
for function in 'fmhax::Executor::enqueue(*' 'fmhax::Graph::launch(*'; do
  collected=$(valgrind --fair-sched=yes --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="$function" \
    "$fmhax" bench --host-time --warmup 0 --iterations "$iterations" "$@" 2>&1 | sed -n 's/^==[0-9]*== Collected : \([0-9]*\)$/\1/p')
  echo "${function%(\*}: $((collected / calls)) instructions"
done
