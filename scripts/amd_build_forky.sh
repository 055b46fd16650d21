#!/usr/bin/env bash
# Builds the preset amd for gfx90a, gfx942 and gfx950 where there is no ROCm: in a folder with Debian forky, whose HIP 6.4
# and clang 21 know all three, and runs the tests there. Needs root, debootstrap and a few GB.
# Usage: scripts/amd_build_forky.sh [FOLDER [CMAKE OPTIONS...]]
#   FOLDER   of the Debian, used again when it is there (default: build/forky)
set -euo pipefail
cd "$(dirname "$0")/.."

[[ $(id -u) -eq 0 ]] || { echo "amd_build_forky.sh: chroot needs root" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "amd_build_forky.sh: needs debootstrap (apt-get install debootstrap)" >&2; exit 1; }
# Mounts are of a namespace of its own: they end with the script, whatever ends it, and nothing outside sees them.
[[ ${FMHAX_OWN_MOUNTS:-} ]] || FMHAX_OWN_MOUNTS=1 exec unshare --mount --propagation unchanged scripts/amd_build_forky.sh "$@"
mount --make-rprivate / 2>/dev/null || true  # in a chroot, where / is no mount, they are private if the outer ones are
. scripts/common.sh

root=$(realpath -m "${1:-build/forky}")
shift || true

# An older debootstrap has no script for forky; it is the one for sid.
if [[ ! -d $root ]]; then
  rm -rf --one-file-system "$root.part"
  mkdir -p "$root.part"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' | head -n 1)
  echo "== debootstrap from $mirror (log: build/forky-debootstrap.log)"
  quietly build/forky-debootstrap.log debootstrap --variant=minbase forky "$root.part" "$mirror" \
    /usr/share/debootstrap/scripts/sid
  mv "$root.part" "$root"
fi

mount -t proc proc "$root/proc"
mkdir -p "$root/fmhax"
mount --bind "$PWD" "$root/fmhax"

inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@"; }
packages=(hipcc libamdhip64-dev cmake ninja-build g++ python3 libfmt-dev libcli11-dev nlohmann-json3-dev
  doctest-dev libeigen3-dev)
if ! inside dpkg-query --show "${packages[@]}" >/dev/null 2>&1; then
  echo "== packages (log: build/forky-packages.log)"
  # A mirror that keeps a state of Debian serves lists that have run out.
  quietly build/forky-update.log inside apt-get -o Acquire::Check-Valid-Until=false update
  quietly build/forky-packages.log inside apt-get install --yes --no-install-recommends "${packages[@]}"
fi

echo "== build (log: build/amd-forky-build.log)"
in_tree() { inside env CMAKE_BUILD_PARALLEL_LEVEL="$CMAKE_BUILD_PARALLEL_LEVEL" sh -c 'cd /fmhax && "$@"' sh "$@"; }
quietly build/amd-forky-configure.log in_tree cmake --preset amd -B build/amd-forky -DFMHAX_BUILD_TESTS=ON "$@"
grep 'Kernels for' build/amd-forky-configure.log
quietly build/amd-forky-build.log in_tree cmake --build build/amd-forky
in_tree ctest --test-dir build/amd-forky --output-on-failure --no-tests=error
in_tree python3 scripts/amd_isa_report.py build/amd-forky >build/amd-forky-isa.txt
in_tree python3 scripts/amd_isa_report.py build/amd-forky --check --kernels '^backward'
# Scalars of the others may go to vector registers; the instructions must be the right ones.
in_tree python3 scripts/amd_isa_report.py build/amd-forky --check --allow-spills
