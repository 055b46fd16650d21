# Fails when a program that uses the workspace functions also holds or asks for the HIP runtime, executors or kernels.
# Usage: cmake -D NM=<nm> -D PROGRAM=<program> -P workspace_only_symbols.cmake
execute_process(COMMAND ${NM} --demangle ${PROGRAM} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols MATCHES " fmhax::pack_workspace_host\\(")
  message(SEND_ERROR "${PROGRAM} does not pack a workspace: wrong program?")
endif()
foreach(unwanted " hip[A-Z]" "hiphost" "fmhax_builtin_kernels" "fmhax::Executor" "fmhax::cpu::")
  string(REGEX MATCHALL "[^\n]*${unwanted}[^\n]*" found "${symbols}")
  if(found)
    list(GET found 0 first)
    message(SEND_ERROR "${PROGRAM}: ${first}")
  endif()
endforeach()
