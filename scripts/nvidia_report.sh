#!/usr/bin/env bash
# Builds for an NVIDIA card and measures there: random problems against fp64, the costs of a call, fmhax beside PyTorch,
# and a training run. Leaves logs, JSON, plots and benchmarks.md in FOLDER.
# Usage: scripts/nvidia_report.sh [-o FOLDER] [-s STEPS] [-t TEXT -l LOSSES] [CMAKE OPTIONS...]
#   -s  which of: build verify bench torch train report (default: all)
#   -t  text to train on, and -l the losses of `train --dtype bf16 --losses` on it on another machine
set -euo pipefail
cd "$(dirname "$0")/.."

folder=build/nvidia-report
steps="build verify bench torch train report"
text=
losses=
while getopts o:s:t:l: option; do
  case $option in
    o) folder=$OPTARG ;;
    s) steps=$OPTARG ;;
    t) text=$OPTARG ;;
    l) losses=$OPTARG ;;
    *) exit 2 ;;
  esac
done
shift $((OPTIND - 1))
mkdir -p "$folder"
bin=build/nvidia/bin
failed=()

# step NAME LOG COMMAND...: runs the command and notes whether it failed; the others go on.
step() {
  local name=$1 log=$folder/$2
  shift 2
  echo "== $name: $*"
  echo "$*" >"$log.command"
  local begin=$SECONDS
  "$@" >"$log" 2>"$log.err" || failed+=("$name")
  tail -n 40 "$log"
  [[ ! -s $log.err ]] || tail -n 5 "$log.err"
  echo "== $name: $((SECONDS - begin)) s"
}

for part in $steps; do
  case $part in
    build)
      cmake --preset nvidia -DFMHAX_BUILD_TESTS=OFF "$@" >"$folder/configure.log"
      cmake --build --preset nvidia >"$folder/build.log" || { tail -n 30 "$folder/build.log"; exit 1; }
      ;;
    verify)
      step "random problems" verify.txt "$bin/fmhax" verify --random 5000
      step "30 runs" repeat.txt "$bin/fmhax" verify --random 100 --first 100000 --repeat 30
      ;;
    bench)
      step "one tiny call" bench.txt "$bin/fmhax" bench --dtype bf16 --batch 1 --nhead-q 1 --seqlen-q 128
      step "paths" paths.txt "$bin/fmhax" bench --paths --mask causal --nhead-q 8 --hdim-q 64 \
        --lengths 1024,325,102,284,110,93,178,238,95,12,700,64,33,512,401,7
      ;;
    torch)
      step "beside PyTorch" torch.txt python3 bench/compare_torch.py --json "$folder/benchmarks.json"
      ;;
    train)
      arguments=()
      [[ -z $text ]] || arguments+=(--text "$text")
      [[ -z $losses ]] || arguments+=(--compare "$losses")
      step "training" train.txt "$bin/train" --dtype bf16 --losses "$folder/losses.txt" "${arguments[@]}"
      ;;
    report)
      logs=()
      for log in verify repeat bench paths train; do
        [[ ! -f $folder/$log.txt ]] || logs+=(--log "$(<"$folder/$log.txt.command")=$folder/$log.txt")
      done
      step "report" report.txt python3 bench/attention_report.py "$folder/benchmarks.json" \
        --markdown "$folder/benchmarks.md" --plots "$folder/images" "${logs[@]}"
      ;;
    *) echo "nvidia_report.sh: no step '$part'" >&2; exit 2 ;;
  esac
done

if ((${#failed[@]} > 0)); then
  printf 'FAILED: %s\n' "${failed[@]}"
  exit 1
fi
echo "all in order; results in $folder"
