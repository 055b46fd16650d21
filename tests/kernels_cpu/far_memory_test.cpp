// Tensors and accumulators of far more than 2^31 elements: address space is reserved, and only what is used of it
// becomes memory.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "bodies.hpp"
#include "isa.hpp"

namespace fmhax::cpu::test {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 2, kSeqlenQ = 70, kSeqlenK = 300, kHdim = 8;
constexpr std::int64_t kFar = (std::int64_t{1} << 32) + 64;  // elements

/// Address space that reads as zero.
class Reservation {
 public:
  explicit Reservation(std::int64_t floats) : bytes_(static_cast<std::size_t>(floats) * sizeof(float)) {
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Reservation() { (void)munmap(memory_, bytes_); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  float* data() const { return static_cast<float*>(memory_); }

 private:
  void* memory_ = nullptr;
  std::size_t bytes_;
};

/// What lies far from what.
enum class Apart { nothing, heads, heads_and_batches };

/// A call of two batches and two heads; the same numbers wherever they lie.
class SpreadCall {
 public:
  explicit SpreadCall(Apart apart) : apart_(apart) {
    for (TensorRef* tensor : {&params_.q, &params_.o, &params_.dout, &params_.dq}) lay_out(*tensor, kSeqlenQ, kHdim);
    for (TensorRef* tensor : {&params_.k, &params_.v, &params_.dk, &params_.dv}) lay_out(*tensor, kSeqlenK, kHdim);
    for (TensorRef* tensor : {&params_.lse, &params_.d}) lay_out(*tensor, kSeqlenQ, 1);
    Problem& p = params_.problem;
    p.dtype = DataType::fp32;
    p.batch = kBatch;
    p.nhead_q = p.nhead_k = kHeads;
    p.hdim_q = p.hdim_v = kHdim;
    p.max_seqlen_q = kSeqlenQ;
    p.max_seqlen_k = kSeqlenK;
    params_.scale = 0.3F;
  }

  std::vector<float> batch_mode_gradients() {
    params_.dq_acc = reserve(kBatch * kHeads * kSeqlenQ * kHdim);
    return gradients();
  }
  /// The batches are two sequences, whose accumulators lie `distance` elements apart.
  std::vector<float> group_mode_gradients(std::int64_t distance) {
    params_.problem.is_group_mode = true;
    params_.problem.total_q = kBatch * kSeqlenQ;
    params_.problem.total_k = kBatch * kSeqlenK;
    params_.lengths.seqstart_q = starts_q_.data();
    params_.lengths.seqstart_k = starts_k_.data();
    dq_acc_offsets_ = {0, distance, 2 * distance};
    params_.dq_acc_offsets = dq_acc_offsets_.data();
    params_.dq_acc = reserve(2 * distance);
    return gradients();
  }

 private:
  float* reserve(std::int64_t floats) { return memory_.emplace_back(std::make_unique<Reservation>(floats))->data(); }

  void lay_out(TensorRef& tensor, std::int64_t rows, std::int64_t width) {
    tensor.stride_seqlen = width;
    tensor.stride_batch = apart_ == Apart::heads_and_batches ? kHeads * kFar : rows * width;
    tensor.stride_nhead = apart_ == Apart::nothing ? kBatch * rows * width : kFar;
    tensor.data = reserve(kBatch * kHeads * (apart_ == Apart::nothing ? rows * width : kFar));
    visit(tensor, rows, width, [this](float& value) { value = static_cast<float>(random_() % 2001) / 1000.0F - 1.0F; });
  }
  template <class Visit>
  static void visit(const TensorRef& tensor, std::int64_t rows, std::int64_t width, const Visit& visit_value) {
    for (std::int64_t batch = 0; batch < kBatch; ++batch) {
      for (std::int64_t head = 0; head < kHeads; ++head) {
        float* first = static_cast<float*>(tensor.data) + batch * tensor.stride_batch + head * tensor.stride_nhead;
        for (std::int64_t i = 0; i < rows * width; ++i) visit_value(first[i]);
      }
    }
  }
  std::vector<float> gradients() {
    params_.nsplits = &nsplits_;
    const TileOps& ops = tile_ops(allowed_isa(), DataType::fp32);
    dot_do_o(params_, ops, {0, 1});
    backward_general(params_, ops, {0, 1});
    convert_dq(params_, ops, {0, 1});
    std::vector<float> values;
    const auto collect = [&values](const float& value) { values.push_back(value); };
    visit(params_.dq, kSeqlenQ, kHdim, collect);
    visit(params_.dk, kSeqlenK, kHdim, collect);
    visit(params_.dv, kSeqlenK, kHdim, collect);
    return values;
  }

  const Apart apart_;
  std::minstd_rand random_{7};
  std::vector<std::unique_ptr<Reservation>> memory_;
  KernelParams params_;
  std::int32_t nsplits_ = 1;
  std::array<std::int32_t, 3> starts_q_{0, kSeqlenQ, 2 * kSeqlenQ};
  std::array<std::int32_t, 3> starts_k_{0, kSeqlenK, 2 * kSeqlenK};
  std::array<std::int64_t, 3> dq_acc_offsets_{};
};

}  // namespace

TEST_CASE("gradients do not depend on how far apart heads, batches and accumulators lie") {
  const std::vector<float> near = SpreadCall(Apart::nothing).batch_mode_gradients();
  CHECK(near != std::vector<float>(near.size(), 0.0F));
  CHECK(SpreadCall(Apart::heads_and_batches).batch_mode_gradients() == near);
  CHECK(SpreadCall(Apart::heads).group_mode_gradients(kHeads * kSeqlenQ * kHdim) == near);
  CHECK(SpreadCall(Apart::heads).group_mode_gradients(kFar) == near);
}

}  // namespace fmhax::cpu::test
