// The C interface used from C. Prints each failed check; the exit status says whether there was one.
#include <stdio.h>

#include "attention.h"
#include "check.h"
#include "device_check/device_check.h"
#include "tests.h"

static int has_kernel(void) {
  attention a;
  attention_create(&a);
  const int is_supported = attention_is_supported(&a);
  attention_destroy(&a);
  return is_supported;
}

int main(void) {
  static const struct {
    const char* name;
    void (*run)(void);
  } kTests[] = {
      {"a group-mode backward, eager", test_backward},
      {"the parts of a call", test_parts},
      {"a graph replayed with other starts", test_graph},
      {"a cache of graphs", test_graph_cache},
      {"texts and kernels", test_texts_and_kernels},
      {"errors", test_errors},
      {"callbacks", test_callbacks},
      {"structs of other versions", test_old_and_new_structs},
  };
  if (!require_device("skipped")) return kNoDeviceStatus;
  if (!has_kernel()) {
    printf("skipped: the device has no kernel for fp32\n");
    return kNoDeviceStatus;
  }
  for (size_t i = 0; i < sizeof kTests / sizeof kTests[0]; ++i) {
    const int before = failed_checks;
    kTests[i].run();
    printf("%s: %s\n", failed_checks == before ? "passed" : "FAILED", kTests[i].name);
  }
  return failed_checks == 0 ? 0 : 1;
}
