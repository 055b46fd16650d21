# Runs a program where no device is visible: it must say so in one line, with HIP's error and what to do, and return 2.
# Usage: cmake -D "COMMAND=program;argument;..." -P no_device_test.cmake
foreach(variable FMHAX_HOST_DEVICES=0 CUDA_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1)
  string(REGEX MATCH "^([^=]+)=(.*)$" ignored ${variable})
  set(ENV{${CMAKE_MATCH_1}} ${CMAKE_MATCH_2})
endforeach()
execute_process(COMMAND ${COMMAND} RESULT_VARIABLE status OUTPUT_QUIET ERROR_VARIABLE message)
message("${message}")
if(NOT status EQUAL 2)
  message(FATAL_ERROR "exit status ${status}, not 2")
endif()
if(NOT message MATCHES "^[^\n]*hipError[^\n]*FMHAX_PLATFORM=host[^\n]*\n$")
  message(FATAL_ERROR "not one line with HIP's error and what to do")
endif()
