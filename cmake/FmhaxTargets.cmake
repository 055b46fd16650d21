# Settings and helpers that every target shares.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
endif()

add_library(fmhax_build_flags INTERFACE)
set(host_only $<NOT:$<COMPILE_LANGUAGE:CUDA>>)
target_compile_options(fmhax_build_flags INTERFACE "$<${host_only}:-Wall;-Wextra;-Wconversion;-Wshadow>"
                                                   "$<$<AND:${host_only},$<BOOL:${FMHAX_WERROR}>>:-Werror>")
target_compile_options(fmhax_build_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${FMHAX_WERROR}>>:-Werror=all-warnings>")
# clang counts signs among -Wconversion's concerns, g++ does not; loops of unknown length may stay rolled. Debuggers are
# for the host's code. LLVM's last pass over loops takes every constant out of them, for which scalar registers are too few,
# and its last sinking takes RDNA's matrix instructions behind what follows them, while their operands stay in registers.
target_compile_options(fmhax_build_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:HIP>:-Wno-sign-conversion;-Wno-pass-failed;SHELL:-Xarch_device -g0;SHELL:-mllvm -disable-machine-licm -mllvm -disable-machine-sink>")
if(FMHAX_SANITIZE)
  target_compile_options(fmhax_build_flags INTERFACE
    "$<${host_only}:-fsanitize=${FMHAX_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  target_link_options(fmhax_build_flags INTERFACE -fsanitize=${FMHAX_SANITIZE})
endif()

# fmhax_device_sources(SOURCES...): files with kernels, in the language of the platform's GPUs: CUDA, as their names say, or HIP.
function(fmhax_device_sources)
  if(FMHAX_PLATFORM STREQUAL "amd")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE HIP)
  endif()
endfunction()

# fmhax_add_library(name SOURCES...): a static library of the project, exported as fmhax::<name without prefix>.
function(fmhax_add_library name)
  add_library(${name} STATIC ${ARGN})
  string(REGEX REPLACE "^fmhax_" "" short ${name})
  add_library(fmhax::${short} ALIAS ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${short})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PRIVATE $<BUILD_INTERFACE:fmhax_build_flags>)
endfunction()

# fmhax_add_program(name SOURCES...): an executable in bin/, linked with the whole library.
function(fmhax_add_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE fmhax::fmhax fmhax_build_flags)
endfunction()

# fmhax_add_test(name SOURCES...): a doctest program in bin/, registered with ctest under its own name.
function(fmhax_add_test name)
  fmhax_add_program(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE fmhax_test_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()

# fmhax_add_device_test(name SOURCES...): the same for tests that need a device, whatever the platform. Without one they
# count as skipped; platform/host always has one.
function(fmhax_add_device_test name)
  if(FMHAX_PLATFORM STREQUAL "host")
    fmhax_add_test(${name} ${ARGN})
    return()
  endif()
  fmhax_add_program(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE fmhax_device_test_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 2)
endfunction()
