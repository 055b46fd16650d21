#!/usr/bin/env bash
# Refreshes the table of kernels in docs/kernels.md from what the compiler put into the provider's library: for each
# kernel and architecture registers, static shared memory and stack (where spilled registers would go).
#   scripts/kernel_resources.sh [build folder, default build/nvidia]
set -euo pipefail
cd "$(dirname "$0")/.."

build=${1:-build/nvidia}
library=$build/kernels/portable/libfmhax_provider_portable.a
document=docs/kernels.md
command -v cuobjdump >/dev/null || PATH=$PATH:/usr/local/cuda/bin
command -v cuobjdump >/dev/null || { echo "kernel_resources.sh: cuobjdump (CUDA toolkit) is not in PATH" >&2; exit 1; }
[[ -f $library ]] || { echo "kernel_resources.sh: $library does not exist; build the preset nvidia" >&2; exit 1; }

table=$(mktemp)
trap 'rm -f "$table"' EXIT
cuobjdump --dump-resource-usage "$library" | c++filt | awk '
  /^arch = / { arch = $3; is_code = 0 }
  /^Resource usage/ { is_code = 1 }
  is_code && /^ Function / {
    name = $0
    sub(/^ Function /, "", name)
    sub(/:$/, "", name)
    gsub(/fmhax::portable::|\(anonymous namespace\)::|^void /, "", name)
    gsub(/\(fmhax::DataType\)1/, "fp16", name)
    gsub(/\(fmhax::DataType\)2/, "bf16", name)
    sub(/\((fmhax::)?KernelParams.*$/, "", name)
  }
  is_code && /REG:/ {
    match($0, /REG:[0-9]+/); registers = substr($0, RSTART + 4, RLENGTH - 4)
    match($0, /STACK:[0-9]+/); stack = substr($0, RSTART + 6, RLENGTH - 6)
    match($0, /SHARED:[0-9]+/); shared = substr($0, RSTART + 7, RLENGTH - 7)
    print name "\t" arch "\t" registers "\t" shared "\t" stack
  }' | sort -t $'\t' -k1,1V -k2,2V | awk -F '\t' '
  BEGIN {
    print "| kernel | architecture | registers | static shared memory | stack |"
    print "| --- | --- | ---: | ---: | ---: |"
  }
  { print "| `" $1 "` | " $2 " | " $3 " | " $4 " | " $5 " |" }' >"$table"

awk -v table="$table" '
  /^<!-- kernel_resources: end -->/ { skipping = 0 }
  !skipping { print }
  /^<!-- kernel_resources: begin -->/ {
    skipping = 1
    while ((getline line < table) > 0) print line
  }' "$document" >"$document.new"
mv "$document.new" "$document"
echo "$document: $(($(wc -l <"$table") - 2)) kernels"
