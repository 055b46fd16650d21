/// @file Pinned memory for call statuses: many share an allocation, and none is ever freed, since that waits for the
/// device and a status may be let go on the way of a call.
#pragma once

#include "fmhax/contract/params.hpp"

namespace fmhax::detail {

/// A slot that says ok. Any device and the host can write to it. Throws Error(hip). Thread-safe.
CallStatus* take_status_slot();

/// Thread-safe; no HIP call.
void give_status_slot(CallStatus* slot) noexcept;

}  // namespace fmhax::detail
