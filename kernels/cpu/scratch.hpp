/// @file The scratch memory of the blocks that a thread runs.
#pragma once

namespace fmhax::cpu {

/// kAllScratchFloats floats, 64-byte aligned, of the calling thread: allocated at its first block, freed when it
/// ends. Throws std::bad_alloc.
float* scratch_memory();

}  // namespace fmhax::cpu
