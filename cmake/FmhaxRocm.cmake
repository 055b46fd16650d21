# HIP as a language, for kernels and for whatever links with them; included where the whole project sees it.

# Where ROCm's packages find one another.
list(APPEND CMAKE_PREFIX_PATH $ENV{ROCM_PATH} /opt/rocm)

# CMake wants the clang that hipcc drives, which need not be the one in PATH; hipcc tells which one it is.
find_program(FMHAX_HIPCC hipcc REQUIRED)
execute_process(COMMAND ${FMHAX_HIPCC} --version OUTPUT_VARIABLE hipcc_says ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
if(NOT hipcc_says MATCHES "HIP version: ([0-9.]+).*clang version ([0-9]+).*InstalledDir: ([^\n]+)")
  message(FATAL_ERROR "${FMHAX_HIPCC} --version names no clang: ${hipcc_says}")
endif()
set(hip_version ${CMAKE_MATCH_1})
find_program(CMAKE_HIP_COMPILER NAMES clang++-${CMAKE_MATCH_2} clang++ PATHS ${CMAKE_MATCH_3} REQUIRED NO_DEFAULT_PATH)

# Debian 12 has ROCm's files where neither its clang nor its CMake looks: device libraries and the language's package lie
# below the architecture's folder, the package looks for another there, and HIP's version is in no file that clang reads.
# /usr/include, which the package names, would stand before the C++ library's headers.
set(debian /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE})
if(EXISTS ${debian}/amdgcn/bitcode AND CMAKE_HIP_COMPILER MATCHES "^/usr/")
  string(PREPEND CMAKE_HIP_FLAGS "--rocm-path=/usr --hip-version=${hip_version} "
                                 "--rocm-device-lib-path=${debian}/amdgcn/bitcode ")
  set(CMAKE_HIP_COMPILER_ROCM_ROOT ${PROJECT_BINARY_DIR}/rocm)
  file(WRITE ${CMAKE_HIP_COMPILER_ROCM_ROOT}/lib/cmake/hip-lang/hip-lang-config.cmake
       "set(CMAKE_LIBRARY_ARCHITECTURE ${CMAKE_LIBRARY_ARCHITECTURE})\n"
       "include(${debian}/cmake/hip-lang/hip-lang-config.cmake)\n"
       "set_target_properties(hip-lang::device hip-lang::amdhip64 PROPERTIES INTERFACE_INCLUDE_DIRECTORIES \"\"\n"
       "                      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES \"\")\n")
endif()

# Of the architectures that the kernels are written for, those that this compiler knows.
if(NOT CMAKE_HIP_ARCHITECTURES)
  execute_process(COMMAND ${CMAKE_HIP_COMPILER} --target=amdgcn-amd-amdhsa -nogpulib --print-supported-cpus
                  OUTPUT_VARIABLE known ERROR_VARIABLE known)
  string(REGEX MATCHALL "gfx90a|gfx942|gfx950" architectures "${known}")
  list(REMOVE_DUPLICATES architectures)
  set(CMAKE_HIP_ARCHITECTURES "${architectures}" CACHE STRING "GPU architectures that kernels are compiled for" FORCE)
endif()
enable_language(HIP)
set(CMAKE_HIP_STANDARD 20)
set(CMAKE_HIP_STANDARD_REQUIRED ON)
set(CMAKE_HIP_EXTENSIONS OFF)
message(STATUS "Kernels for ${CMAKE_HIP_ARCHITECTURES}, by ${CMAKE_HIP_COMPILER} ${CMAKE_HIP_COMPILER_VERSION}")
