/// @file The interface between emulator.py, which knows it through ctypes, and wave.cpp.
#pragma once

#include <cstdint>

namespace fmhax::emulation {

/// One instruction as a function of some of a wave's buffers: 0 scalar registers, 1 vector registers, 2 memory,
/// 3 LDS, 4 scratch memory, 5 accumulation registers.
struct Instruction {
  void* function;  ///< null: not known yet
  std::uint8_t buffer[6];
  std::uint8_t buffer_count;
  std::uint8_t is_barrier;
  std::uint64_t executed;  ///< how often
};

/// Why a wave stopped.
enum Stop : int { kFinished = 0, kAtBarrier = 1, kUnknownInstruction = 2, kInterrupted = 3 };

}  // namespace fmhax::emulation

extern "C" {
/// The function of an instruction that wave.cpp has, of the buffers 0, 1, 3, 4, 5; null for others.
void* fmhax_emulation_instruction(const char* name);
/// Runs a wave for at most `most` instructions. `program` has one entry for each 4 bytes from `begin` to `end`.
/// Whatever no GPU code may do ends the process with a line on stderr.
int fmhax_emulation_run(fmhax::emulation::Instruction* program, std::uint64_t begin, std::uint64_t end,
                        void* const* buffers, std::uint64_t most);
/// Access to no memory then says which instruction it was.
void fmhax_emulation_catch_faults();
}
