#!/usr/bin/env bash
# clang-format on every file, clang-tidy on the library.
# Usage: scripts/lint.sh [--all|--format]
#   --all     clang-tidy on tools, samples and tests too
#   --format  clang-format alone, which takes seconds
set -euo pipefail
cd "$(dirname "$0")/.."

tidy_folders=(executor kernels platform)
case ${1:-} in
  '') ;;
  --all) tidy_folders+=(tools samples tests) ;;
  --format) tidy_folders=() ;;
  *)
    echo "lint.sh: unknown option '$1': --all, --format or nothing" >&2
    exit 64
    ;;
esac

scripts/install_deps.sh lint
. scripts/common.sh

folders=(include executor kernels platform tools samples tests bench)
mapfile -d '' files < <(find "${folders[@]}" -type f \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0)
echo "clang-format: ${#files[@]} files"
clang-format --dry-run -Werror "${files[@]}"
[[ ${#tidy_folders[@]} -gt 0 ]] || { echo "lint: format clean"; exit 0; }

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
