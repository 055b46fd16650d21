"""What scripts/amd_isa_report.py reads out of code objects: amd_isa_report_test.py FOLDER_OF_THE_SCRIPT"""

import struct
import sys
import unittest

sys.path.insert(0, sys.argv.pop(1))
import amd_isa_report as report

NOTES = """
    AMDGPU Metadata:
        ---
amdhsa.kernels:
  - .agpr_count:     16
    .args:
      - .name:           an_argument
        .offset:         0
    .group_segment_fixed_size: 256
    .name:           first
    .private_segment_fixed_size: 0
    .sgpr_count:     90
    .sgpr_spill_count: 3
    .symbol:         first.kd
    .vgpr_count:     130
    .vgpr_spill_count: 0
  - .group_segment_fixed_size: 0
    .name:           second
    .private_segment_fixed_size: 36
    .sgpr_count:     10
    .sgpr_spill_count: 0
    .vgpr_count:     64
    .vgpr_spill_count: 8
amdhsa.version:
  - 1
  - 2
"""

DISASSEMBLY = """
code:	file format elf64-amdgpu

0000000000001000 <first>:
	s_load_dwordx4 s[0:3], s[4:5], 0x0                         // 000000001000: C00A0002 00000000
	global_load_dwordx4 v[0:3], v0, s[0:1]                     // 000000001008: DC5C8000 00000000
	s_waitcnt vmcnt(0)                                         // 000000001010: BF8C0F70
	v_mfma_f32_16x16x16bf16_1k a[0:3], v[0:1], v[2:3], a[0:3]  // 000000001014: D3E70000 04020500
	ds_read_b128 v[4:7], v1                                    // 00000000101C: D9FE0000 04000001
	s_cbranch_scc1 65532                                       // 000000001024: BF85FFFC <first+0x10>
	ds_write2_b64 v1, v[4:5], v[6:7] offset1:1                 // 000000001028: D89C0100 00060401
	global_atomic_add_f32 v0, v1, s[0:1]                       // 000000001030: DD348000 00000100
	s_cbranch_scc0 65525                                       // 000000001038: BF84FFF5 <first+0x8>
	s_endpgm                                                   // 00000000103C: BF810000

0000000000001100 <second>:
	s_branch 65535                                             // 000000001100: BF82FFFF <second>
"""


def bundle(*entries: tuple[str, bytes]) -> bytes:
    header = report.BUNDLE + struct.pack("<Q", len(entries))
    offset = len(header) + sum(24 + len(target) for target, _ in entries)
    for target, content in entries:
        header += struct.pack("<QQQ", offset, len(content), len(target)) + target.encode()
        offset += len(content)
    return header + b"".join(content for _, content in entries)


def kernel(name: str = "backward<bf16, 64, 64>", **metadata: int) -> report.Kernel:
    numbers = report.parse_metadata(NOTES)["first"] | {"sgpr_spill_count": 0} | metadata
    return report.Kernel(name, "gfx90a", numbers, report.parse_disassembly(DISASSEMBLY)["first"])


class ReportTest(unittest.TestCase):
    def test_code_objects_are_found_wherever_bundles_lie(self):
        host, one, two = ("host-x86_64-unknown-linux-", b""), b"one", b"three"
        data = b"x" * 7 + bundle(host, ("hipv4-amdgcn-amd-amdhsa--gfx90a", one)) + b"y" * 5
        data += bundle(host, ("hipv4-amdgcn-amd-amdhsa--gfx942", two))
        self.assertEqual(report.code_objects(data), [("gfx90a", one), ("gfx942", two)])

    def test_metadata_is_a_kernels_own_not_its_arguments(self):
        kernels = report.parse_metadata(NOTES)
        self.assertEqual(list(kernels), ["first", "second"])
        self.assertEqual(kernels["first"]["vgpr_count"], 130)
        self.assertEqual(kernels["first"]["sgpr_spill_count"], 3)
        self.assertEqual(kernels["second"]["private_segment_fixed_size"], 36)
        self.assertNotIn("agpr_count", kernels["second"])

    def test_the_main_loop_is_the_innermost_with_matrix_instructions(self):
        functions = report.parse_disassembly(DISASSEMBLY)
        self.assertEqual([len(loop) for loop in report.loops(functions["first"])], [4, 8])
        loop = report.main_loop(functions["first"])
        self.assertEqual([i.mnemonic for i in loop][:2], ["s_waitcnt", "v_mfma_f32_16x16x16bf16_1k"])
        self.assertEqual(len(loop), 4)
        self.assertEqual([len(loop) for loop in report.loops(functions["second"])], [1])

    def test_a_row_of_the_table(self):
        row = report.columns(kernel())
        self.assertEqual(row["waves/SIMD"], "3")  # 136 of 512 registers
        self.assertEqual(row["matrix"], "1 x 16x16x16 (25 %)")
        self.assertEqual(row["LDS reads"], "1 x b128")
        self.assertEqual(row["LDS writes"], "-")  # not in that loop
        self.assertEqual(row["atomics"], "1 x add_f32")
        self.assertEqual(row["spills"], "-")

    def test_registers_are_those_of_the_architecture(self):
        on_rdna = kernel(vgpr_count=250)
        on_rdna.architecture = "gfx1201"
        self.assertEqual(on_rdna.waves, 5)  # 264 of 1536 registers
        self.assertEqual(kernel(vgpr_count=250).waves, 2)

    def test_faults(self):
        self.assertEqual(report.faults(kernel()), [])
        self.assertEqual(report.faults(kernel(sgpr_spill_count=3)), ["spills 3 SGPR"])
        self.assertEqual(report.faults(kernel(sgpr_spill_count=3), allows_spills=True), [])
        self.assertEqual(report.faults(kernel(vgpr_spill_count=1, private_segment_fixed_size=4)), ["spills 1 VGPR, 4 bytes"])
        bare = kernel()
        bare.instructions = [report.Instruction(0, "global_atomic_cmpswap")]
        self.assertEqual(len(report.faults(bare)), 4)
        bare.name = "prepare_kernel"
        self.assertEqual(report.faults(bare), ["an atomic operation is a loop of compare and swap"])

    def test_names_are_short(self):
        long = "void fmhax::portable::backward_kernel<fmhax::portable::BackwardInstance<(fmhax::DataType)2, 192, 128, true, false> >"
        self.assertEqual(report.short_name(long + "(fmhax::KernelParams, fmhax::portable::BackwardArguments)"),
                         "backward<bf16, 192, 128> direct")
        self.assertEqual(report.short_name("fmhax::portable::(anonymous namespace)::prepare_kernel(fmhax::KernelParams)"),
                         "prepare_kernel")

    def test_a_table_as_text_and_as_markdown(self):
        rows = [{"a": "1", "long": "2"}, {"a": "333", "long": "4"}]
        self.assertEqual(report.table(rows, False), "a    long\n1    2\n333  4")
        self.assertEqual(report.table(rows, True), "| a | long |\n| --- | --- |\n| `1` | 2 |\n| `333` | 4 |")


if __name__ == "__main__":
    unittest.main()
