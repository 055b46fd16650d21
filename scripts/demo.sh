#!/usr/bin/env bash
# From a bare Debian 12 to the main job: installs what is missing, builds for the CPU platform, runs the README's
# program, then trains a small language model whose attention backward is a replayed graph. The last line of
# standard output is the training's summary as JSON.
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/install_deps.sh demo
. scripts/common.sh

echo "== building (log: build/demo-build.log)"
quietly build/demo-configure.log cmake --preset host -DFMHAX_BUILD_TESTS=OFF "${configure_options[@]}"
quietly build/demo-build.log cmake --build --preset host --target fmhax_minimal fmhax_train

echo "== minimal"
build/host/bin/minimal

echo "== train"
build/host/bin/train
