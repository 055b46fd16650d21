#!/usr/bin/env bash
# clang-format on every file, clang-tidy on the library.
# Usage: scripts/lint.sh [--all]     --all: clang-tidy on tools, samples and tests too
set -euo pipefail
cd "$(dirname "$0")/.."

tidy_folders=(executor kernels platform)
case ${1:-} in
  '') ;;
  --all) tidy_folders+=(tools samples tests) ;;
  *)
    echo "lint.sh: unknown option '$1': --all or nothing" >&2
    exit 64
    ;;
esac

scripts/install_deps.sh lint
. scripts/common.sh

folders=(include executor kernels platform tools samples tests bench)
mapfile -d '' files < <(find "${folders[@]}" -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0)
echo "clang-format: ${#files[@]} files"
clang-format --dry-run -Werror "${files[@]}"

# clang-tidy reads how each file is compiled; it needs no built objects.
quietly build/lint-configure.log cmake --preset host -DFMHAX_BUILD_TESTS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
  "${configure_options[@]}"
mapfile -t sources < <(find "${tidy_folders[@]}" -name '*.cpp' | sort | while read -r source; do
  if grep -q "$PWD/$source\"" build/host/compile_commands.json; then echo "$source"; fi
done)
echo "clang-tidy: ${#sources[@]} files"
[[ ${#sources[@]} -gt 0 ]]
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$jobs" bash -c '
  log=$(clang-tidy --quiet -p build/host "$1" 2>&1) || { printf "%s\n" "$log"; exit 1; }' _
echo "lint: clean"
