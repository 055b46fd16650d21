#include "fmhax/status.hpp"

#include "fmhax/contract/status_access.hpp"
#include "status_slots.hpp"

namespace fmhax {

StatusBuffer StatusBuffer::create() {
  StatusBuffer buffer;
  buffer.status_ = std::shared_ptr<CallStatus>(detail::take_status_slot(), detail::give_status_slot);
  return buffer;
}

CallStatus StatusBuffer::read() const noexcept { return status_ ? load_status(*status_) : CallStatus{}; }

}  // namespace fmhax
