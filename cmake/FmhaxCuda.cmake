# CUDA as a language, for kernels and for whatever links with them; included where the whole project sees it.

# Machine code for both, and PTX of the first for whatever comes later (PTX of 90a runs on nothing else).
set(CMAKE_CUDA_ARCHITECTURES "80;90a" CACHE STRING "GPU architectures that kernels are compiled for")
enable_language(CUDA)
# CMake 3.25, which is Debian 12's, does not know that nvcc 12 takes C++20.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
