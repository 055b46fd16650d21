/// @file How the instruction sets that wave.cpp executes differ: in the lanes of a wave, and in where the fields of
/// memory instructions lie.
#pragma once

namespace fmhax::emulation {

struct Field {
  unsigned low;
  unsigned width;
};

/// "AMD Instinct MI300" and "CDNA4 Instruction Set Architecture".
struct Cdna {
  static constexpr unsigned kLanes = 64;
  static constexpr bool kHasAgprs = true;
  static constexpr unsigned kNeighbouringSums = 4;  ///< rows of a matrix product that a lane has one after another
  // FLAT, GLOBAL, SCRATCH.
  static constexpr unsigned kMemoryBytes = 8;
  static constexpr Field kOffset{0, 13}, kAddsVector{13, 1}, kReturns{16, 1}, kAddress{32, 8}, kData{40, 8},
      kScalarAddress{48, 7}, kTarget{56, 8};
};

/// "RDNA4 Instruction Set Architecture".
struct Rdna4 {
  static constexpr unsigned kLanes = 32;
  static constexpr bool kHasAgprs = false;
  static constexpr unsigned kNeighbouringSums = 8;
  // VFLAT, VGLOBAL, VSCRATCH.
  static constexpr unsigned kMemoryBytes = 12;
  static constexpr Field kOffset{72, 24}, kAddsVector{49, 1}, kReturns{52, 1}, kAddress{64, 8}, kData{55, 8},
      kScalarAddress{0, 7}, kTarget{32, 8};
};

}  // namespace fmhax::emulation
