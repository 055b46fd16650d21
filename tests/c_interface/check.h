/// @file Checks for tests in C: a failed one is printed and counted, the test goes on.
#ifndef FMHAX_TESTS_C_INTERFACE_CHECK_H
#define FMHAX_TESTS_C_INTERFACE_CHECK_H

#include "fmhax/workspace.h"

/// Failed checks so far.
extern int failed_checks;

void check_that(int holds, const char* text, const char* file, int line);
/// That a call returned `wanted`; and when that is an error, that the message holds `part`.
void check_code(fmhax_error_code code, fmhax_error_code wanted, const char* part, const char* text, const char* file,
                int line);

#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_OK(call) check_code((call), FMHAX_OK, "", #call, __FILE__, __LINE__)
#define CHECK_ERROR(call, code, part) check_code((call), (code), (part), #call, __FILE__, __LINE__)

#endif
