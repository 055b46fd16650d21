#include "offered_types.hpp"

#include <algorithm>

#include "fmhax/executor.hpp"

namespace fmhax::tool {
namespace {

constexpr std::int64_t kPlainHdim = 64;

bool some_kernel_takes(DataType dtype, std::int64_t hdim) {
  Problem plain;
  plain.dtype = dtype;
  plain.batch = plain.nhead_q = plain.nhead_k = 1;
  plain.hdim_q = plain.hdim_v = hdim;
  plain.max_seqlen_q = plain.max_seqlen_k = 128;
  try {
    const Executor executor(plain);
    return true;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::unsupported) return false;
    throw;
  }
}

}  // namespace

const std::vector<DataType>& offered_types() {
  static const std::vector<DataType> kOffered = [] {
    std::vector<DataType> types;
    for (const DataType dtype : {DataType::fp32, DataType::fp16, DataType::bf16}) {
      if (some_kernel_takes(dtype, kPlainHdim)) types.push_back(dtype);
    }
    return types;
  }();
  return kOffered;
}

bool is_offered(DataType dtype) {
  const std::vector<DataType>& types = offered_types();
  return std::find(types.begin(), types.end(), dtype) != types.end();
}

std::int64_t largest_offered_hdim() {
  static const std::int64_t kLargest = [] {
    for (const std::int64_t hdim : {256, 192, 128}) {
      for (const DataType dtype : offered_types()) {
        if (some_kernel_takes(dtype, hdim)) return hdim;
      }
    }
    return kPlainHdim;
  }();
  return kLargest;
}

}  // namespace fmhax::tool
