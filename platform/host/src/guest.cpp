#include "guest.hpp"

namespace hiphost {
namespace {

constinit GuestDevice* the_guest = nullptr;

}  // namespace

void set_guest_device(GuestDevice& guest) noexcept { the_guest = &guest; }

GuestDevice* guest_device() noexcept { return the_guest; }

}  // namespace hiphost
