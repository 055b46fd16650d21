// Intrusive reference counting. An object that lives inside a larger one can forward its count to it.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace hiphost {

class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  void ref() noexcept { count().fetch_add(1, std::memory_order_relaxed); }

  void unref() noexcept {
    RefCounted* counted = owner_ != nullptr ? owner_ : this;
    if (counted->refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete counted;
  }

  std::uint32_t ref_count() const noexcept {
    return (owner_ != nullptr ? owner_->refs_ : refs_).load(std::memory_order_acquire);
  }

 protected:
  virtual ~RefCounted() = default;

  // From now on references count for owner, which must contain this object.
  void set_ref_owner(RefCounted* owner) noexcept { owner_ = owner; }

 private:
  std::atomic<std::uint32_t>& count() noexcept { return owner_ != nullptr ? owner_->refs_ : refs_; }

  std::atomic<std::uint32_t> refs_{0};
  RefCounted* owner_ = nullptr;
};

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(T* object) noexcept : object_(object) {
    if (object_ != nullptr) object_->ref();
  }
  Ref(const Ref& other) noexcept : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  template <class U>
  Ref(const Ref<U>& other) noexcept : Ref(other.get()) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->unref();
  }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }
  T& operator*() const noexcept { return *object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <class T, class... A>
Ref<T> make_ref(A&&... args) {
  return Ref<T>(new T(std::forward<A>(args)...));
}

}  // namespace hiphost
