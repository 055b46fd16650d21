/// @file What every C function does on its way in and out: arguments that must not be null, exceptions that become
/// codes, texts that go into the caller's buffer.
#pragma once

#include <cstddef>
#include <exception>
#include <new>
#include <string>

#include "fmhax/error.hpp"
#include "fmhax/workspace.h"

namespace fmhax::c_interface {

/// Sets what fmhax_last_error_message() and fmhax_last_hip_error() say on this thread; returns the code.
fmhax_error_code fail(fmhax_error_code code, const char* message, int hip_error = 0) noexcept;

/// Runs one function's body; whatever it throws becomes a code and a message.
template <class Body>
fmhax_error_code guarded(Body&& body) noexcept {
  try {
    body();
    return FMHAX_OK;
  } catch (const Error& error) {
    return fail(static_cast<fmhax_error_code>(error.code()), error.what(), error.hip_error());
  } catch (const std::bad_alloc&) {
    return fail(FMHAX_ERROR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    return fail(FMHAX_ERROR_INTERNAL, error.what());
  } catch (...) {
    return fail(FMHAX_ERROR_INTERNAL, "an exception that is no std::exception");
  }
}

/// The object behind a pointer that must not be null.
template <class T>
T& required(T* pointer, const char* name) {
  if (pointer == nullptr) throw Error(ErrorCode::invalid_argument, std::string(name) + " is null");
  return *pointer;
}

/// As snprintf: what fits of `text` goes to target, its whole length to `length` unless that is null.
void write_text(const std::string& text, char* target, std::size_t capacity, std::size_t* length);

}  // namespace fmhax::c_interface
