#include "code_object.hpp"

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include <elf.h>
#include <nlohmann/json.hpp>

namespace fmhax::emulation {
namespace {

using nlohmann::json;

constexpr std::string_view kBundleMagic = "__CLANG_OFFLOAD_BUNDLE__";
constexpr std::uint32_t kMetadataNote = 32;  // NT_AMDGPU_METADATA

template <typename T>
T read(std::string_view bytes, std::size_t position) {
  T value;
  if (position + sizeof(T) > bytes.size()) throw std::runtime_error("a code object ends early");
  std::memcpy(&value, bytes.data() + position, sizeof(T));
  return value;
}

json metadata_of(std::string_view image) {
  const auto header = read<Elf64_Ehdr>(image, 0);
  for (std::size_t i = 0; i < header.e_phnum; ++i) {
    const auto segment = read<Elf64_Phdr>(image, header.e_phoff + i * sizeof(Elf64_Phdr));
    if (segment.p_type != PT_NOTE) continue;
    const auto note = read<Elf64_Nhdr>(image, segment.p_offset);
    if (note.n_type != kMetadataNote) continue;
    const std::size_t begin = segment.p_offset + sizeof(note) + (note.n_namesz + 3) / 4 * 4;
    return json::from_msgpack(image.substr(begin, note.n_descsz));
  }
  throw std::runtime_error("a code object has no metadata");
}

/// What the runtime tells a kernel of its launch.
std::uint64_t hidden_value(const std::string& kind, const hiphost::KernelPosition& launch) {
  const auto component = [&kind](const hiphost::Index3& i) {
    return kind.back() == 'x' ? i.x : kind.back() == 'y' ? i.y : i.z;
  };
  if (kind.starts_with("hidden_block_count_")) return component(launch.grid_size);
  if (kind.starts_with("hidden_group_size_")) return component(launch.block_size);
  if (kind.starts_with("hidden_remainder_") || kind.starts_with("hidden_global_offset_")) return 0;
  if (kind == "hidden_grid_dims") return launch.grid_size.z > 1 ? 3 : launch.grid_size.y > 1 ? 2 : 1;
  if (kind == "hidden_dynamic_lds_size") return hiphost_dynamic_shared_bytes();
  // Services of the runtime, which the kernels don't use although the compiler can't always tell.
  if (kind == "hidden_hostcall_buffer" || kind == "hidden_multigrid_sync_arg" || kind == "hidden_heap_v1" ||
      kind == "hidden_default_queue" || kind == "hidden_completion_action" || kind == "hidden_queue_ptr") {
    return 0;
  }
  throw std::runtime_error("argument " + kind + " is not emulated");
}

}  // namespace

std::string_view code_object_of(const void* bundle, const std::string& arch) {
  const auto* begin = static_cast<const char*>(bundle);
  if (std::memcmp(begin, kBundleMagic.data(), kBundleMagic.size()) != 0) {
    throw std::runtime_error("a program's kernels are not in an uncompressed offload bundle");
  }
  const auto number = [&begin] {
    std::uint64_t value = 0;
    std::memcpy(&value, begin, sizeof(value));
    begin += sizeof(value);
    return value;
  };
  begin += kBundleMagic.size();
  for (std::uint64_t rest = number(); rest > 0; --rest) {
    const std::uint64_t offset = number();
    const std::uint64_t size = number();
    const std::uint64_t length = number();
    const std::string_view triple(begin, length);
    begin += length;
    if (triple.starts_with("hip") && (triple.ends_with("--" + arch) || triple.find("--" + arch + ":") != triple.npos)) {
      return {static_cast<const char*>(bundle) + offset, size};
    }
  }
  return {};
}

KernelLayout kernel_layout(std::string_view image, const std::string& name) {
  const json metadata = metadata_of(image);
  for (const json& kernel : metadata.at("amdhsa.kernels")) {
    if (kernel.at(".name") != name) continue;
    KernelLayout layout{name, kernel.at(".kernarg_segment_size"), {}};
    if (!kernel.contains(".args")) return layout;
    for (const json& argument : kernel.at(".args")) {
      layout.arguments.push_back({argument.at(".offset"), argument.at(".size"), argument.at(".value_kind")});
    }
    return layout;
  }
  throw std::runtime_error("a code object has no kernel " + name);
}

std::vector<unsigned char> argument_segment(const KernelLayout& layout, const hiphost::KernelPosition& launch,
                                            void** arguments) {
  std::vector<unsigned char> segment(layout.segment_size);
  std::size_t next = 0;
  for (const Argument& argument : layout.arguments) {
    if (argument.kind.starts_with("hidden_")) {
      const std::uint64_t value = hidden_value(argument.kind, launch);
      std::memcpy(segment.data() + argument.offset, &value, argument.size);
    } else {
      std::memcpy(segment.data() + argument.offset, arguments[next++], argument.size);
    }
  }
  return segment;
}

}  // namespace fmhax::emulation
