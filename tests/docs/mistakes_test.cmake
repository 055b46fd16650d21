# check_document.cmake passes docs/graphs.md as it is and refuses it with each kind of mistake.
cmake_minimum_required(VERSION 3.25)
file(READ ${SOURCE_DIR}/docs/graphs.md text)

function(check_document altered expects_failure message)
  file(WRITE ${FOLDER}/altered.md "${altered}")
  execute_process(COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${SOURCE_DIR} -D EXAMPLES=${EXAMPLES}
                          -D DOCUMENT=${FOLDER}/altered.md -D LINKS_FROM=${SOURCE_DIR}/docs
                          -P ${SOURCE_DIR}/tests/docs/check_document.cmake
                  RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE error)
  string(REGEX REPLACE "[ \n]+" " " error "${error}")
  string(FIND "${error}" "${message}" position)
  if(expects_failure AND (result EQUAL 0 OR position EQUAL -1))
    message(FATAL_ERROR "a mistake was not found: ${message}\n${error}")
  elseif(NOT expects_failure AND NOT result EQUAL 0)
    message(FATAL_ERROR "${error}")
  endif()
endfunction()

function(refuses what by message)
  string(FIND "${text}" "${what}" position)
  if(position EQUAL -1)
    message(FATAL_ERROR "the document has nothing like '${what}' to make a mistake with")
  endif()
  string(REPLACE "${what}" "${by}" altered "${text}")
  check_document("${altered}" TRUE "${message}")
endfunction()

check_document("${text}" FALSE "")
refuses("\"a call is captured in every capture mode\"" "\"a call is captured in every mode\"" "has no test case")
refuses("do.[^every-mode]" "do.[^some-mode]" "footnote some-mode is not defined")
refuses("do.[^every-mode]" "do." "footnote every-mode is not used")
refuses("capture_contract_test.cpp)" "capture_promise_test.cpp)" "there is no file")
refuses("(exploring.md)" "(exploration.md)" "there is no file")
refuses("hipStreamCaptureModeThreadLocal" "hipStreamCaptureModeGlobal" "a block is not in the examples")
refuses("`FMHAX_REBUILD_GRAPHS" "`FMHAX_REMAKE_GRAPHS" "reads no environment variable")
