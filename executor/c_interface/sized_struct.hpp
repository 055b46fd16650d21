/// @file Structs that say how large the caller's header makes them, so that both sides may know fewer fields than the
/// other's next version. New fields come at the end; nothing may be put into padding that was there before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include "boundary.hpp"

namespace fmhax::c_interface {

/// A struct with every field at its default; struct_size is set by who uses it.
template <class T>
T defaults();

template <class T>
void check_struct_size(const char* name, std::size_t size) {
  static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T> && offsetof(T, struct_size) == 0);
  if (size >= sizeof(std::uint32_t) && size <= sizeof(T)) return;
  throw Error(ErrorCode::invalid_argument, std::string(name) + ".struct_size is " + std::to_string(size) +
                                               ", but must be the struct's size, at most " + std::to_string(sizeof(T)) +
                                               "; was it initialised, or is the program newer than the library?");
}

/// fmhax_..._init: the caller's part of the defaults.
template <class T>
void init_struct(T* target, const char* name, std::size_t size) {
  required(target, name);
  check_struct_size<T>(name, size);
  T value = defaults<T>();
  value.struct_size = static_cast<std::uint32_t>(size);
  std::memcpy(target, &value, size);
}

/// A struct of the library's own size: the caller's fields, defaults in those that the caller doesn't know.
template <class T>
T read_struct(const T* given, const char* name) {
  const std::size_t size = required(given, name).struct_size;
  check_struct_size<T>(name, size);
  T value = defaults<T>();
  std::memcpy(&value, given, size);
  value.struct_size = sizeof(T);
  return value;
}

/// Writes the fields that the caller knows.
template <class T>
void write_struct(T value, T* target, const char* name) {
  const std::uint32_t size = required(target, name).struct_size;
  check_struct_size<T>(name, size);
  value.struct_size = size;
  std::memcpy(target, &value, size);
}

}  // namespace fmhax::c_interface
