#include "offered_types.hpp"

#include <algorithm>

#include "fmhax/executor.hpp"

namespace fmhax::tool {
namespace {

bool some_kernel_takes(DataType dtype) {
  Problem plain;
  plain.dtype = dtype;
  plain.batch = plain.nhead_q = plain.nhead_k = 1;
  plain.hdim_q = plain.hdim_v = 64;
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
      if (some_kernel_takes(dtype)) types.push_back(dtype);
    }
    return types;
  }();
  return kOffered;
}

bool is_offered(DataType dtype) {
  const std::vector<DataType>& types = offered_types();
  return std::find(types.begin(), types.end(), dtype) != types.end();
}

}  // namespace fmhax::tool
