#include "check.h"

#include <stdio.h>
#include <string.h>

int failed_checks = 0;

void check_that(int holds, const char* text, const char* file, int line) {
  if (holds) return;
  ++failed_checks;
  fprintf(stderr, "%s:%d: failed: %s\n", file, line, text);
}

void check_code(fmhax_error_code code, fmhax_error_code wanted, const char* part, const char* text, const char* file,
                int line) {
  const char* message = code == FMHAX_OK ? "" : fmhax_last_error_message();
  if (code == wanted && strstr(message, part) != NULL) return;
  ++failed_checks;
  fprintf(stderr, "%s:%d: %s gave %s (%s), wanted %s with \"%s\"\n", file, line, text, fmhax_error_code_name(code),
          message, fmhax_error_code_name(wanted), part);
}
