#!/usr/bin/env bash
# Everything that CI checks, from a bare Debian 12: installs what is missing, builds, and runs
#   host   all tests
#   asan   tests under AddressSanitizer (with leaks) and UndefinedBehaviorSanitizer
#   tsan   tests under ThreadSanitizer
#   amd    everything for AMD's GPUs with Debian's HIP 5.2, a part of the kernels; what needs a GPU is skipped
#   lint   clang-format and clang-tidy
# Usage: scripts/test.sh [--quick] [--only host|asan|tsan|amd|lint]
#   --quick   host alone;  --only may be repeated
set -euo pipefail
cd "$(dirname "$0")/.."

steps=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --quick) steps+=(host) ;;
    --only)
      case ${2:-} in
        host | asan | tsan | amd | lint) steps+=("$2") ;;
        *)
          echo "test.sh: --only '${2:-}': host, asan, tsan, amd or lint" >&2
          exit 64
          ;;
      esac
      shift
      ;;
    *)
      echo "test.sh: unknown option '$1': --quick or --only STEP" >&2
      exit 64
      ;;
  esac
  shift
done
[[ ${#steps[@]} -gt 0 ]] || steps=(host asan tsan amd lint)

scripts/install_deps.sh test
. scripts/common.sh

# The programs that are worth their time under sanitizers: targets, which are tests of the same name. What other
# environments make of the same programs runs without sanitizers alone.
sanitized_tests=(workspace_test platform_host_test platform_host_two_devices_test platform_host_poison_test
  platform_host_exit_test executor_test fmhax_kernels_cpu_test fmhax_train_test)
# Failing calls must not leak, the C boundary must hold, and odd lengths stay inside; faults made on purpose do race.
asan_tests=(explorer_scenarios_test known_faults_test platform_host_allocation_test fmhax_c_interface_test
  fmhax_c_interface_failure_test gradient_fault_test gradient_feature_test)
# Many threads at once.
tsan_tests=(stress_test)

step_host() {
  quietly build/host-configure.log cmake --preset host -DFMHAX_BUILD_TESTS=ON "${configure_options[@]}"
  quietly build/host-build.log cmake --build --preset host
  ctest --preset host --no-tests=error </dev/null
}

# sanitized PRESET [COMMAND...]: builds and runs the tests in the array `tests`; COMMAND, when given, runs ctest.
sanitized() {
  local preset=$1 names
  shift
  quietly "build/$preset-configure.log" cmake --preset "$preset" -DFMHAX_BUILD_TESTS=ON "${configure_options[@]}"
  quietly "build/$preset-build.log" cmake --build --preset "$preset" --target "${tests[@]}"
  names=$(IFS='|' && echo "${tests[*]}")
  "$@" ctest --preset "$preset" --no-tests=error --tests-regex "^($names)\$" </dev/null
}

step_asan() {
  export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1:check_initialization_order=1:strict_string_checks=1
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  local tests=("${sanitized_tests[@]}" "${asan_tests[@]}")
  sanitized host-asan
}

step_tsan() {
  export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
  # On kernels that randomise more address bits than this ThreadSanitizer knows, it can't map its shadow:
  # run without randomisation where that is allowed.
  local fixed_addresses=()
  if setarch -R true 2>/dev/null; then fixed_addresses=(setarch -R); fi
  local tests=("${sanitized_tests[@]}" "${tsan_tests[@]}")
  sanitized host-tsan "${fixed_addresses[@]}"
}

step_amd() { scripts/amd_build.sh; }
step_lint() { scripts/lint.sh; }

summary=()
failed=0
for step in "${steps[@]}"; do
  echo "== $step"
  SECONDS=0
  # A subshell of its own, not a condition: in a condition set -e would be off.
  set +e
  (
    set -e
    "step_$step"
  )
  status=$?
  set -e
  if [[ $status -eq 0 ]]; then
    summary+=("$step: ok, ${SECONDS} s")
  else
    summary+=("$step: FAILED (status $status), ${SECONDS} s")
    failed=1
  fi
done
echo "== summary"
printf '%s\n' "${summary[@]}"
exit "$failed"
