/// @file An AMD GPU without the GPU: HIP's runtime functions of platform/host, with device memory and kernels in
/// another process, emulator.py. Preloaded, it takes the place of libamdhip64 in a program built for AMD GPUs, which
/// then runs unchanged; run_emulated.py does so. A launch runs as a whole, beside whatever else is on other streams.
#include <hiphost/guest.hpp>
#include <hiphost/kernel.hpp>

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "code_object.hpp"

namespace fmhax::emulation {
namespace {

using nlohmann::json;

const char* setting(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

/// Addresses that this process and the emulator both use. None is used twice and the page behind each block is left
/// out, so that access to what was freed, or beyond the end, ends the emulator.
class SharedMemory {
 public:
  static constexpr std::uintptr_t kBegin = 0x100000000000;
  static constexpr std::size_t kSize = std::size_t{1} << 40;

  SharedMemory() : file_(memfd_create("fmhax emulated GPU", 0)) {
    if (file_ < 0 || ftruncate(file_, static_cast<off_t>(kSize)) != 0) throw std::runtime_error("memfd_create failed");
  }
  int file() const { return file_; }

  struct Block {
    std::uintptr_t first_page;
    std::size_t bytes;  ///< whole pages
    void* begin;
  };
  /// With its end as near to the end of a page as an alignment of 256 bytes allows.
  Block allocate(std::size_t size) {
    const std::size_t bytes = (size + kPage - 1) / kPage * kPage;
    const std::uintptr_t first = next_;
    if (first + bytes + kPage > kBegin + kSize) return {};
    next_ += bytes + kPage;
    void* at = mmap(reinterpret_cast<void*>(first), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                    file_, static_cast<off_t>(first - kBegin));
    if (at == MAP_FAILED) return {};
    return {first, bytes, static_cast<std::byte*>(at) + (bytes - size) / kAlignment * kAlignment};
  }
  /// Of a block that allocate() returned.
  static Block block_of(void* begin, std::size_t size) {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    return {address / kPage * kPage, (size + kPage - 1) / kPage * kPage, begin};
  }
  void release(const Block& block) {
    munmap(reinterpret_cast<void*>(block.first_page), block.bytes);
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(block.first_page - kBegin),
              static_cast<off_t>(block.bytes));
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kAlignment = 256;

  int file_;
  std::uintptr_t next_ = kBegin;
};

/// The other process, which ends with this one. Not thread-safe.
class Emulator {
 public:
  explicit Emulator(int memory_file) {
    std::array<int, 2> ends{};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) throw std::runtime_error("socketpair failed");
    const std::array<std::string, 6> arguments = {setting("FMHAX_EMULATION_PYTHON", "python3"),
                                                  setting("FMHAX_EMULATOR", "emulator.py"),
                                                  std::to_string(ends[1]),
                                                  std::to_string(memory_file),
                                                  std::to_string(SharedMemory::kBegin),
                                                  setting("FMHAX_EMULATION_WAVE", "libfmhax_emulation_wave.so")};
    const pid_t process = fork();
    if (process == 0) {
      close(ends[0]);
      unsetenv("LD_PRELOAD");
      std::array<char*, arguments.size() + 1> pointers{};
      for (std::size_t i = 0; i < arguments.size(); ++i) pointers[i] = const_cast<char*>(arguments[i].c_str());
      execvp(pointers[0], pointers.data());
      std::perror("starting the emulator");
      _exit(127);
    }
    close(ends[1]);
    if (process < 0) throw std::runtime_error("fork failed");
    // Children that the program starts must not keep the emulator alive.
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    requests_ = fdopen(ends[0], "w");
    answers_ = fdopen(fcntl(ends[0], F_DUPFD_CLOEXEC, 0), "r");
  }
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  void tell(const json& request) {
    const std::string line = request.dump() + '\n';
    std::fwrite(line.data(), 1, line.size(), requests_);
    std::fflush(requests_);
  }
  /// Throws what the emulator answers as an error.
  void ask(const json& request) {
    tell(request);
    std::string line;
    for (int c = std::fgetc(answers_); c != '\n'; c = std::fgetc(answers_)) {
      if (c == EOF) throw std::runtime_error("the emulator ended");
      line.push_back(static_cast<char>(c));
    }
    const json answer = json::parse(line);
    if (answer.contains("error")) throw std::runtime_error(answer["error"].get<std::string>());
  }

 private:
  std::FILE* requests_;
  std::FILE* answers_;
};

/// hipFatBinary of one translation unit, loaded with the first launch.
struct Module {
  std::string_view image;
  int number = -1;
};

struct KernelOfModule {
  Module* module;
  KernelLayout layout;
};

class EmulatedGpu final : public hiphost::GuestDevice {
 public:
  EmulatedGpu() {
    std::signal(SIGPIPE, SIG_IGN);
    set_guest_device(*this);
  }

  void describe(hipDeviceProp_t& p) const noexcept override {
    // As many as give blocks of persistent kernels several jobs each.
    constexpr int kMultiprocessors = 4;
    std::snprintf(p.name, sizeof(p.name), "emulated %s", arch_.c_str());
    std::snprintf(p.gcnArchName, sizeof(p.gcnArchName), "%s", arch_.c_str());
    p.sharedMemPerBlock = p.sharedMemPerBlockOptin = p.sharedMemPerMultiprocessor = most_shared_bytes();
    p.maxSharedMemoryPerMultiProcessor = p.sharedMemPerMultiprocessor;
    p.multiProcessorCount = kMultiprocessors;
    const bool is_rdna = arch_.starts_with("gfx12");
    p.warpSize = is_rdna ? 32 : 64;
    p.integrated = 0;
    p.major = is_rdna ? 12 : 9;
    p.minor = arch_ == "gfx950" ? 5 : arch_ == "gfx942" ? 4 : 0;
  }

  void* allocate(std::size_t size) noexcept override {
    const std::lock_guard lock(mutex_);
    const SharedMemory::Block block = memory_.allocate(size);
    if (block.begin != nullptr) emulator().tell({{"map", {block.first_page, block.bytes}}});
    return block.begin;
  }
  void release(void* memory, std::size_t size) noexcept override {
    const std::lock_guard lock(mutex_);
    const SharedMemory::Block block = SharedMemory::block_of(memory, size);
    emulator().tell({{"unmap", {block.first_page, block.bytes}}});
    memory_.release(block);
  }

  Module* add_module(const void* bundle) {
    const std::lock_guard lock(mutex_);
    return modules_.emplace_back(new Module{code_object_of(bundle, arch_)});
  }

  void add_kernel(Module* module, const void* handle, const char* name) {
    const std::lock_guard lock(mutex_);
    if (module->image.empty()) return;
    KernelLayout layout = kernel_layout(module->image, name);
    std::vector<std::size_t> sizes;
    for (const Argument& argument : layout.arguments) {
      if (!argument.kind.starts_with("hidden_")) sizes.push_back(argument.size);
    }
    hiphost_register_kernel(handle, sizes.size(), sizes.data(),
                            [](const void* function, void** arguments) { instance().run(function, arguments); });
    kernels_[handle] = {module, std::move(layout)};
  }

  static EmulatedGpu& instance() {
    static EmulatedGpu* const gpu = new EmulatedGpu;
    return *gpu;
  }

 private:
  std::size_t most_shared_bytes() const noexcept { return arch_ == "gfx950" ? 160 << 10 : 64 << 10; }

  /// The runtime comes here for every thread of every block; the first one is the launch.
  void run(const void* function, void** arguments) {
    const hiphost::KernelPosition& here = hiphost::kernel_position;
    const auto is_first = [](const hiphost::Index3& i) { return i.x == 0 && i.y == 0 && i.z == 0; };
    if (!is_first(here.block) || !is_first(here.thread)) return;
    const std::lock_guard lock(mutex_);
    const KernelOfModule& kernel = kernels_.at(function);
    load(*kernel.module);
    const auto numbers = [](const hiphost::Index3& i) { return json{i.x, i.y, i.z}; };
    try {
      emulator().ask({{"launch", kernel.layout.name},
                      {"in", kernel.module->number},
                      {"grid", numbers(here.grid_size)},
                      {"block", numbers(here.block_size)},
                      {"shared_bytes", hiphost_dynamic_shared_bytes()},
                      {"most_shared_bytes", most_shared_bytes()},
                      {"arguments", hexadecimal(argument_segment(kernel.layout, here, arguments))}});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "emulated kernel %s failed: %s\n", kernel.layout.name.c_str(), error.what());
      throw;
    }
  }

  void load(Module& module) {
    if (module.number >= 0) return;
    module.number = loaded_++;
    const SharedMemory::Block block = memory_.allocate(module.image.size());
    if (block.begin == nullptr) throw std::bad_alloc();
    std::memcpy(block.begin, module.image.data(), module.image.size());
    emulator().tell({{"map", {block.first_page, block.bytes}}});
    emulator().tell({{"module", module.number},
                     {"address", reinterpret_cast<std::uintptr_t>(block.begin)},
                     {"size", module.image.size()}});
  }

  static std::string hexadecimal(const std::vector<unsigned char>& bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const unsigned char byte : bytes) {
      text.push_back(kDigits[byte / 16]);
      text.push_back(kDigits[byte % 16]);
    }
    return text;
  }

  Emulator& emulator() {
    if (!emulator_) emulator_ = std::make_unique<Emulator>(memory_.file());
    return *emulator_;
  }

  const std::string arch_ = setting("FMHAX_EMULATION_ARCH", "gfx942");
  std::mutex mutex_;
  SharedMemory memory_;
  std::unique_ptr<Emulator> emulator_;
  std::vector<Module*> modules_;  // until the process ends
  std::unordered_map<const void*, KernelOfModule> kernels_;
  int loaded_ = 0;
};

}  // namespace
}  // namespace fmhax::emulation

using fmhax::emulation::EmulatedGpu;
using fmhax::emulation::Module;

// What the compiler's own code calls to make a program's kernels known, and for <<<>>>.
extern "C" {

struct FatBinaryWrapper {
  std::uint32_t magic, version;
  const void* binary;
  void* unused;
};

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the compiler's names
void** __hipRegisterFatBinary(const void* wrapper) {
  return reinterpret_cast<void**>(
      EmulatedGpu::instance().add_module(static_cast<const FatBinaryWrapper*>(wrapper)->binary));
}

void __hipRegisterFunction(void** modules, const void* host_function, char*, const char* device_name, unsigned, void*,
                           void*, void*, void*, int*) {
  EmulatedGpu::instance().add_kernel(reinterpret_cast<Module*>(modules), host_function, device_name);
}

void __hipRegisterVar(void**, void*, char*, char*, int, std::size_t, int, int) {}
void __hipRegisterManagedVar(void*, void**, void*, const char*, std::size_t, unsigned) {}
void __hipUnregisterFatBinary(void**) {}

thread_local struct {
  dim3 grid, block;
  std::size_t shared_bytes;
  hipStream_t stream;
} call_configuration;

hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes, hipStream_t stream) {
  call_configuration = {grid, block, shared_bytes, stream};
  return hipSuccess;
}

hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes, hipStream_t* stream) {
  *grid = call_configuration.grid;
  *block = call_configuration.block;
  *shared_bytes = call_configuration.shared_bytes;
  *stream = call_configuration.stream;
  return hipSuccess;
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)
}
