// Settings read from environment variables.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace hiphost {

// The variable's value, or the default where it is unset or no number.
inline int environment_integer(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*end != '\0' || value < -1000000 || value > 1000000) return otherwise;
  return static_cast<int>(value);
}

inline int environment_device_count() { return std::clamp(environment_integer("FMHAX_HOST_DEVICES", 1), 0, 64); }

inline int environment_thread_count() {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return std::clamp(environment_integer("FMHAX_HOST_THREADS", cores), 1, 1024);
}

}  // namespace hiphost
