# The README shows samples/minimal whole, as it is compiled.
file(READ ${SOURCE_DIR}/README.md readme)
file(READ ${SOURCE_DIR}/samples/minimal/main.cpp program)
string(FIND "${readme}" "```cpp\n${program}```" position)
if(position EQUAL -1)
  message(FATAL_ERROR "README.md does not show samples/minimal/main.cpp as it is")
endif()
