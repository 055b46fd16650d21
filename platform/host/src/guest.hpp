// The guest device, if there is one.
#pragma once

#include <hiphost/guest.hpp>

namespace hiphost {

// Null without one.
GuestDevice* guest_device() noexcept;

}  // namespace hiphost
