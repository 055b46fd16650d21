"""The clocks that scripts/amd_step_estimate.py counts: amd_step_estimate_test.py FOLDER_OF_THE_SCRIPT"""

import argparse
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import amd_isa_report
import amd_step_estimate as estimate

DISASSEMBLY = """
0000000000000f00 <other>:
	s_endpgm                                                   // 000000000F00: BF810000

0000000000001000 <kernel>:
	s_barrier                                                  // 000000001000: BF8A0000
	ds_read_b64 v[0:1], v4                                     // 000000001004: D8EC0000 00000004
	s_waitcnt lgkmcnt(0)                                       // 00000000100C: BF8CC07F
	v_mfma_f32_16x16x16_bf16 a[0:3], v[0:1], v[2:3], a[0:3]    // 000000001010: D3E18000 04020500
	v_accvgpr_read_b32 v5, a3                                  // 000000001018: D3D84005 18000103
	v_exp_f32_e32 v5, v5                                       // 000000001020: 7E0A4105
	s_branch 65526                                             // 000000001024: BF82FFF6 <kernel>
"""
OPTIONS = argparse.Namespace(lds=100, scalar=200, memory=800)
STEP = [0x00, 0x04, 0x0C, 0x10, 0x18, 0x20, 0x24]


class EstimateTest(unittest.TestCase):
    def test_code_is_the_kernels_own(self):
        code = estimate.by_address(amd_isa_report.parse_disassembly(DISASSEMBLY)["kernel"])
        self.assertEqual(list(code), STEP)
        self.assertEqual(code[0x18], ("v_accvgpr_read_b32", ["v5", "a3"]))

    def test_a_step_reaches_from_barrier_to_barrier_and_has_matrix_instructions(self):
        code = estimate.by_address(amd_isa_report.parse_disassembly(DISASSEMBLY)["kernel"])
        found = estimate.steps(code, [0x00, 0x24, *STEP, *STEP, 0x00], OPTIONS)
        expected = {
            "scalar instructions": 8,
            "LDS instructions": 4,
            "waits for LDS": 104,  # 8 to move, 100 until it answers, of which 4 to ask
            "waits and nops": 4,
            "matrix instructions": 4,
            "waits for the matrix unit": 16,  # 16 clocks and an issue, from the instruction's issue on
            "vector instructions": 20,  # v_exp has a quarter of the rate
        }
        self.assertEqual([dict(spent) for spent in found], [expected, expected])


if __name__ == "__main__":
    unittest.main()
