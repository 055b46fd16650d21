// What one operation does, as a value: run now by a task, or kept in a graph's node.
#pragma once

#include <hip/hip_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <variant>

#include "event.hpp"
#include "kernel_registry.hpp"
#include "task.hpp"

namespace hiphost {

// The packed arguments of a launch; small ones need no allocation.
class ArgumentBlock {
 public:
  ArgumentBlock() = default;
  explicit ArgumentBlock(std::size_t size) : size_(size) {
    if (size > kInline) heap_ = std::make_unique<Chunk[]>((size + sizeof(Chunk) - 1) / sizeof(Chunk));
  }
  ArgumentBlock(const ArgumentBlock& other) : ArgumentBlock(other.size_) {
    if (size_ != 0) std::memcpy(data(), other.data(), size_);
  }
  ArgumentBlock(ArgumentBlock&&) noexcept = default;
  ArgumentBlock& operator=(ArgumentBlock other) noexcept {
    size_ = other.size_;
    inline_ = other.inline_;
    heap_ = std::move(other.heap_);
    return *this;
  }

  std::byte* data() noexcept { return heap_ ? heap_[0].bytes : inline_[0].bytes; }
  const std::byte* data() const noexcept { return heap_ ? heap_[0].bytes : inline_[0].bytes; }
  std::size_t size() const noexcept { return size_; }

 private:
  struct alignas(16) Chunk {
    std::byte bytes[16];
  };
  static constexpr std::size_t kInline = 128;
  std::size_t size_ = 0;
  std::array<Chunk, kInline / sizeof(Chunk)> inline_{};
  std::unique_ptr<Chunk[]> heap_;
};

// A box of bytes; a plain copy has height and depth 1.
struct CopyWork {
  void* dst = nullptr;
  const void* src = nullptr;
  std::size_t dst_pitch = 0, src_pitch = 0;
  std::size_t dst_slice = 0, src_slice = 0;  // bytes from one plane to the next
  std::size_t width = 0, height = 1, depth = 1;
  hipMemcpyKind kind = hipMemcpyDefault;
};

// Rows of `width` elements of 1, 2 or 4 bytes.
struct SetWork {
  void* dst = nullptr;
  std::size_t pitch = 0;
  std::size_t slice = 0;
  std::uint32_t value = 0;
  std::uint32_t element_size = 1;
  std::size_t width = 0, height = 1, depth = 1;
};

struct KernelWork {
  const KernelInfo* kernel = nullptr;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  int device = 0;  // that the function belongs to; a node's may not change
  ArgumentBlock args;
};

struct HostWork {
  hipHostFn_t function = nullptr;
  void* data = nullptr;
};

struct CallbackWork {
  hipStreamCallback_t function = nullptr;
  hipStream_t stream = nullptr;
  void* data = nullptr;
};

struct FreeWork {
  void* pointer = nullptr;
};

// The node or task is only a marker; a child graph's nodes are held elsewhere.
struct EmptyWork {};
struct ChildWork {};

struct RecordWork {
  Ref<Event> event;
};
struct WaitWork {
  Ref<Event> event;
};

using Work = std::variant<EmptyWork, CopyWork, SetWork, KernelWork, HostWork, CallbackWork, FreeWork, ChildWork,
                          RecordWork, WaitWork>;

class Device;

// A task that does one operation.
class WorkTask : public Task {
 public:
  using Task::Task;
  virtual const Work& work() const noexcept = 0;
  virtual bool in_graph() const noexcept = 0;
  const WorkTask* as_work() const noexcept final { return this; }
};

TaskKind task_kind(const Work& work) noexcept;
const char* work_name(const Work& work) noexcept;
// Runs it on this thread. A kernel or host function that throws leaves hipErrorLaunchFailure on the device.
void run_work(const Work& work, Device& device) noexcept;

}  // namespace hiphost
