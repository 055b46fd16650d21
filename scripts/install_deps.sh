#!/usr/bin/env bash
# Installs the Debian packages that a task needs, and does nothing when they are there.
# Usage: scripts/install_deps.sh [demo|test|lint|amd]...   (default: demo)
set -euo pipefail

demo=(g++ cmake ninja-build libeigen3-dev libcli11-dev libfmt-dev nlohmann-json3-dev)
test=("${demo[@]}" doctest-dev)
lint=("${test[@]}" clang-format clang-tidy)
amd=("${test[@]}" hipcc libamdhip64-dev rocm-device-libs python3)

wanted=()
for group in "${@:-demo}"; do
  case $group in
    demo) wanted+=("${demo[@]}") ;;
    test) wanted+=("${test[@]}") ;;
    lint) wanted+=("${lint[@]}") ;;
    amd) wanted+=("${amd[@]}") ;;
    *)
      echo "install_deps.sh: unknown group '$group': demo, test, lint or amd" >&2
      exit 64
      ;;
  esac
done

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed || " ${missing[*]} " == *" $package "* ]] || missing+=("$package")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "install_deps.sh: missing packages; as root, run: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "installing ${missing[*]}" >&2
"${as_root[@]}" apt-get update --quiet=2 >&2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}" >&2 </dev/null
