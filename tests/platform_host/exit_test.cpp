// What happens when a process ends with work under way: the program starts itself in each of these ways.
#include <cstdlib>
#include <cstring>

#include <sys/wait.h>
#include <unistd.h>

#include "support.hpp"

namespace {

// Destroyed after the runtime's threads have ended, since it exists before the runtime does.
struct LateUser {
  hipStream_t stream = nullptr;
  void* memory = nullptr;
  ~LateUser() {
    if (stream == nullptr) return;
    if (hipStreamDestroy(stream) != hipSuccess) _exit(21);
    if (hipFree(memory) != hipSuccess) _exit(22);
    if (hipLaunchHostFunc(
            nullptr, [](void*) {}, nullptr) != hipErrorDeinitialized)
      _exit(23);
  }
} late_user;

[[noreturn]] void run_child(const char* way) {
  hipStream_t stream = nullptr;
  if (hipStreamCreate(&stream) != hipSuccess) std::_Exit(10);
  if (std::strcmp(way, "queued") == 0) {
    for (int i = 0; i < 1000; ++i) {
      if (hipLaunchHostFunc(
              stream, [](void*) { usleep(2000); }, nullptr) != hipSuccess)
        std::_Exit(11);
    }
  } else if (std::strcmp(way, "blocked") == 0) {
    if (hipLaunchHostFunc(
            stream, [](void*) { pause(); }, nullptr) != hipSuccess)
      std::_Exit(12);
    if (hipLaunchHostFunc(
            stream, [](void*) {}, nullptr) != hipSuccess)
      std::_Exit(13);
    usleep(20000);
  } else if (std::strcmp(way, "late") == 0) {
    late_user.stream = stream;
    if (hipMalloc(&late_user.memory, 64) != hipSuccess) std::_Exit(14);
  } else if (std::strcmp(way, "capturing") == 0) {
    if (hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal) != hipSuccess) std::_Exit(15);
    if (hipLaunchHostFunc(
            stream, [](void*) {}, nullptr) != hipSuccess)
      std::_Exit(16);
  }
  std::exit(0);
}

int exit_status(const char* way) {
  const pid_t child = fork();
  if (child == 0) {
    setenv("FMHAX_EXIT_TEST", way, 1);
    execl("/proc/self/exe", "platform_host_exit_test", static_cast<char*>(nullptr));
    _exit(99);
  }
  int status = 0;
  const auto ended = [&] { return waitpid(child, &status, WNOHANG) == child; };
  if (!test::eventually(ended)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct ChildEntry {
  ChildEntry() {
    if (const char* way = std::getenv("FMHAX_EXIT_TEST")) run_child(way);
  }
} child_entry;

}  // namespace

TEST_CASE("a process ends in order with work queued") { CHECK_EQ(exit_status("queued"), 0); }
TEST_CASE("a process ends while a host function blocks for ever") { CHECK_EQ(exit_status("blocked"), 0); }
TEST_CASE("static objects may use the runtime after its threads have ended") { CHECK_EQ(exit_status("late"), 0); }
TEST_CASE("a process ends in the middle of a capture") { CHECK_EQ(exit_status("capturing"), 0); }
