/// @file Executor options whose allocators are C functions.
#pragma once

#include <cstddef>
#include <memory>

#include "fmhax/executor.hpp"
#include "fmhax/fmhax.h"
#include "sized_struct.hpp"

namespace fmhax::c_interface {

template <>
fmhax_executor_options defaults<fmhax_executor_options>();

/// The caller's functions with their user pointer, shared by everything that may still call one of them.
class Callbacks {
 public:
  explicit Callbacks(const fmhax_executor_options& options) : options_(options) {}
  /// Calls release_user, if own_user() was.
  ~Callbacks();
  Callbacks(const Callbacks&) = delete;
  Callbacks& operator=(const Callbacks&) = delete;

  /// From now on the user pointer is the library's to release.
  void own_user() noexcept { owns_user_ = true; }

  void* alloc_workspace(std::size_t bytes, bool zero_init) const;
  /// Empty when the caller's function gives nothing. The memory keeps `self` alive.
  static std::shared_ptr<void> alloc_pinned(std::shared_ptr<const Callbacks> self, std::size_t bytes);

 private:
  void free_pinned(void* memory) const noexcept;

  const fmhax_executor_options options_;
  bool owns_user_ = false;
};

struct ConvertedOptions {
  ExecutorOptions options;
  std::shared_ptr<Callbacks> callbacks;
};

/// Null: the defaults. Throws Error(invalid_argument).
ConvertedOptions options_from(const fmhax_executor_options* given);

}  // namespace fmhax::c_interface
