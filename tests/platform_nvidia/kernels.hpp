/// @file A kernel, for launches and kernel nodes.
#pragma once

#include <cstdint>

namespace test {

/// The kernel (std::uint32_t* words, std::uint32_t count, std::uint32_t amount): adds to each of the first words, one
/// thread a word.
void* add_kernel();

/// Arguments of the kernel, as launches take them.
struct AddArguments {
  std::uint32_t* words;
  std::uint32_t count;
  std::uint32_t amount;
  void* pointers[3] = {&words, &count, &amount};

  AddArguments(std::uint32_t* words_, std::uint32_t count_, std::uint32_t amount_)
      : words(words_), count(count_), amount(amount_) {}
  AddArguments(const AddArguments&) = delete;
  AddArguments& operator=(const AddArguments&) = delete;
};

}  // namespace test
