/// @file What the emulated GPU has to know of compiled kernels: llvm.org/docs/AMDGPUUsage.html, "Code Object Metadata",
/// and clang.llvm.org/docs/ClangOffloadBundler.html.
#pragma once

#include <hiphost/kernel.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace fmhax::emulation {

/// The ELF image for one architecture in an offload bundle; empty when there is none.
std::string_view code_object_of(const void* bundle, const std::string& arch);

/// One argument in the segment that a kernel is given.
struct Argument {
  std::size_t offset;
  std::size_t size;
  std::string kind;  ///< by_value, or hidden_* for what the runtime adds
};

struct KernelLayout {
  std::string name;
  std::size_t segment_size = 0;
  std::vector<Argument> arguments;
};

/// Throws std::runtime_error when the image has no such kernel.
KernelLayout kernel_layout(std::string_view image, const std::string& name);

/// The segment for one launch. Throws std::runtime_error for a kernel that wants what isn't known here.
std::vector<unsigned char> argument_segment(const KernelLayout& layout, const hiphost::KernelPosition& launch,
                                            void** arguments);

}  // namespace fmhax::emulation
