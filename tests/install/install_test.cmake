# Run by ctest: see CMakeLists.txt.
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run(${CMAKE_COMMAND} --install ${BUILD_DIR} --component fmhax --prefix ${SCRATCH}/built)
# What was installed must not remember where.
file(RENAME ${SCRATCH}/built ${SCRATCH}/prefix)

if(EXISTS ${SCRATCH}/prefix/include/hip)
  message(FATAL_ERROR "include/hip was installed: it would stand in front of ROCm's headers")
endif()
file(GLOB_RECURSE package_files ${SCRATCH}/prefix/*.cmake)
foreach(file IN LISTS package_files)
  file(READ ${file} text)
  foreach(forbidden ${SOURCE_DIR} ${BUILD_DIR} ${SCRATCH} fmt:: Eigen3:: fmhax_build_flags)
    string(FIND "${text}" ${forbidden} position)
    if(NOT position EQUAL -1)
      message(FATAL_ERROR "${file} mentions ${forbidden}")
    endif()
  endforeach()
endforeach()

set(flags "")
if(SANITIZE)
  set(flags -D CMAKE_CXX_FLAGS=-fsanitize=${SANITIZE} -D CMAKE_C_FLAGS=-fsanitize=${SANITIZE})
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${SCRATCH}/consumer -G ${GENERATOR}
    -D CMAKE_PREFIX_PATH=${SCRATCH}/prefix -D CMAKE_CXX_COMPILER=${CXX_COMPILER} -D CMAKE_C_COMPILER=${C_COMPILER}
    -D REQUIRED_VERSION=${VERSION} ${flags})
run(${CMAKE_COMMAND} --build ${SCRATCH}/consumer)
run(${SCRATCH}/consumer/sizes)
run(${SCRATCH}/consumer/plan)
run(${SCRATCH}/consumer/plan_in_c)
run(${SCRATCH}/consumer/sizes_in_c)
