#!/usr/bin/env bash
# Everything that a machine with a GPU can tell about fmhax, in one command: builds, runs all tests, random problems against
# fp64, the costs of a call, fmhax beside PyTorch (and aiter), a training run, and on AMD what the compiler made of the
# kernels. No part stops the others. FOLDER/report.txt has the machine, the versions and how each part ended; logs, JSON,
# plots and benchmarks.md lie beside it. Needs ROCm or CUDA, CMake 3.25, Ninja, and what `scripts/install_deps.sh test`
# installs; without root the headers are unpacked below build/deps.
# Usage: scripts/run_on_gpu.sh [-p amd|nvidia] [-o FOLDER] [-s STEPS] [-n PROBLEMS] [-t TEXT -l LOSSES] [-- CMAKE OPTIONS...]
#   -p  platform (default: nvidia where there is nvidia-smi, else amd)
#   -s  which of: machine build test verify bench torch train isa report (default: all)
#   -n  random problems of verify (default: 5000)
#   -t  text to train on, and -l the losses of `train --dtype bf16 --losses` on it on another machine
set -uo pipefail
cd "$(dirname "$0")/.." || exit

platform=amd
if command -v nvidia-smi >/dev/null; then platform=nvidia; fi
folder=
steps="machine build test verify bench torch train isa report"
problems=5000
text=
losses=
while getopts p:o:s:n:t:l: option; do
  case $option in
    p) platform=$OPTARG ;;
    o) folder=$OPTARG ;;
    s) steps=$OPTARG ;;
    n) problems=$OPTARG ;;
    t) text=$OPTARG ;;
    l) losses=$OPTARG ;;
    *) exit 64 ;;
  esac
done
shift $((OPTIND - 1))
folder=${folder:-build/$platform-report}
mkdir -p "$folder"
exec > >(tee "$folder/report.txt") 2>&1
tree=build/$platform
bin=$tree/bin
PATH=$PATH:/opt/rocm/bin:/usr/local/cuda/bin
outcomes=()

# step NAME LOG COMMAND...: runs the command and notes how it ended; the others go on.
step() {
  local name=$1 log=$folder/$2 status=0
  shift 2
  echo "== $name: $*"
  echo "$*" >"$log.command"
  local begin=$SECONDS
  "$@" >"$log" 2>"$log.err" || status=$?
  tail -n 40 "$log"
  tail -n 5 "$log.err"
  case $status in
    0) outcomes+=("$name: ok, $((SECONDS - begin)) s") ;;
    *) outcomes+=("$name: FAILED (status $status), $((SECONDS - begin)) s") ;;
  esac
}

# Of these what there is.
show_machine() {
  local words
  date -u
  while read -ra words; do
    command -v "${words[0]}" >/dev/null || continue
    echo "-- ${words[*]}"
    "${words[@]}" </dev/null 2>&1 | head -n 60
  done <<'END'
git log -1 --format=%H
uname -srm
lscpu
rocm-smi --showproductname --showdriverversion
rocminfo
hipcc --version
nvidia-smi
nvcc --version
cmake --version
c++ --version
END
  python3 -c 'import torch; print("-- PyTorch", torch.__version__, "HIP", torch.version.hip, "CUDA", torch.version.cuda)' || true
}

# Libraries of headers, for those who may not install packages.
unpack_headers() {
  local folder=$PWD/build/deps packages=(libfmt-dev libcli11-dev nlohmann-json3-dev doctest-dev)
  mkdir -p "$folder"
  mapfile -t -O 4 packages < <(apt-cache depends libfmt-dev | sed -n 's/.*Depends: \(libfmt[0-9]*\)$/\1/p')
  (cd "$folder" && apt-get download "${packages[@]}" && for package in *.deb; do dpkg -x "$package" .; done)
  export CMAKE_PREFIX_PATH=$folder/usr${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}
}

configure_and_build() {
  scripts/install_deps.sh test || unpack_headers
  cmake --preset "$platform" -DFMHAX_BUILD_TESTS=ON -DFMHAX_BUILD_BENCH=ON "$@" && cmake --build --preset "$platform" -- -k 0
}

beside_torch() {
  if ! python3 -c 'import torch'; then
    echo "skipped: python3 has no PyTorch"
    return
  fi
  python3 bench/compare_torch.py --library "$bin/libfmhax_c.so" --json "$folder/benchmarks.json"
}

for part in $steps; do
  case $part in
    machine) step machine machine.txt show_machine ;;
    build) step build build.txt configure_and_build "$@" ;;
    test) step tests tests.txt ctest --test-dir "$tree" --output-on-failure --no-tests=error ;;
    verify)
      step "random problems" verify.txt "$bin/fmhax" verify --random "$problems"
      step "30 runs" repeat.txt "$bin/fmhax" verify --random 100 --first 100000 --repeat 30
      ;;
    bench)
      step "one tiny call" bench.txt "$bin/fmhax" bench --dtype bf16 --batch 1 --nhead-q 1 --seqlen-q 128
      step "paths" paths.txt "$bin/fmhax" bench --paths --mask causal --nhead-q 8 --hdim-q 64 \
        --lengths 1024,325,102,284,110,93,178,238,95,12,700,64,33,512,401,7
      step "host's part of a call" host.txt "$bin/fmhax_host_call_cost"
      ;;
    torch) step "beside PyTorch" torch.txt beside_torch ;;
    train)
      arguments=()
      [[ -z $text ]] || arguments+=(--text "$text")
      [[ -z $losses ]] || arguments+=(--compare "$losses")
      step "training" train.txt "$bin/train" --dtype bf16 --losses "$folder/losses.txt" "${arguments[@]}"
      ;;
    isa)
      [[ $platform == nvidia ]] || step "code of the kernels" isa.txt python3 scripts/amd_isa_report.py "$tree"
      ;;
    report)
      [[ -f $folder/benchmarks.json ]] || continue
      logs=()
      for log in verify repeat bench paths train; do
        [[ ! -f $folder/$log.txt ]] || logs+=(--log "$(<"$folder/$log.txt.command")=$folder/$log.txt")
      done
      step "tables and plots" report-tables.txt python3 bench/attention_report.py "$folder/benchmarks.json" \
        --markdown "$folder/benchmarks.md" --plots "$folder/images" "${logs[@]}"
      ;;
    *) echo "run_on_gpu.sh: no step '$part'" && exit 64 ;;
  esac
done

echo "== summary (details in $folder)"
printf '%s\n' "${outcomes[@]}"
[[ "${outcomes[*]}" != *FAILED* ]]
