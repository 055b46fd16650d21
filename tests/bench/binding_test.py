"""bench/fmhax_c.py against the library: the same gradients eagerly, over a prepared workspace and as a graph, refused
problems, and rows of bench/attention_rows.py that are what they say. Needs no torch: plain tensors in the CPU
platform's device memory.

    binding_test.py BENCH_FOLDER LIBFMHAX_C
"""
import ctypes
import math
import random
import struct
import sys
import unittest

BENCH_FOLDER, LIBRARY = sys.argv[1:3]
sys.path.insert(0, BENCH_FOLDER)

import attention_rows  # noqa: E402
import fmhax_c  # noqa: E402

library = fmhax_c.Library(LIBRARY)
hip = library.raw


class Tensor:
    """What fmhax_c asks of a torch tensor: fp32 in device memory, contiguous, or with strides of its own."""

    dtype = "torch.float32"

    def __init__(self, shape, strides=None, itemsize: int = 4) -> None:
        self.shape, self.itemsize = tuple(shape), itemsize
        self.count = math.prod(shape)
        self.strides = strides or tuple(math.prod(shape[i + 1:]) for i in range(len(shape)))
        self.memory = ctypes.c_void_p()
        assert hip.hipMalloc(ctypes.byref(self.memory), ctypes.c_size_t(max(1, self.count * itemsize))) == 0

    def __del__(self) -> None:
        hip.hipFree(self.memory)

    def data_ptr(self) -> int:
        return self.memory.value

    def stride(self):
        return self.strides

    def numel(self) -> int:
        return self.count

    def write(self, form: str, values) -> "Tensor":
        ctypes.memmove(self.memory, struct.pack(f"{self.count}{form}", *values), self.count * self.itemsize)
        return self

    def bits(self) -> bytes:
        return ctypes.string_at(self.memory, self.count * self.itemsize)

    def values(self):
        return struct.unpack(f"{self.count}f", self.bits())


def synchronize() -> None:
    assert hip.hipDeviceSynchronize() == 0


class Backward:
    """Two packed sequences of 5 and 3 tokens, two heads, hdim 16."""

    LENGTHS, NHEAD, HDIM = (5, 3), 2, 16

    def __init__(self, metadata: str) -> None:
        tokens = sum(self.LENGTHS)
        generator = random.Random(1)
        shape = (1, tokens, self.NHEAD, self.HDIM)
        rows = ((1, tokens, self.NHEAD, 1), (self.NHEAD * tokens, 1, tokens, 1))
        self.tensors = {name: Tensor(shape) for name in ("q", "k", "v", "o", "dout", "dq", "dk", "dv")}
        self.tensors |= {name: Tensor(*rows) for name in ("lse", "d")}
        for name in ("q", "k", "v", "dout"):
            self.tensors[name].write("f", [generator.gauss(0, 1) for _ in range(math.prod(shape))])
        starts = [sum(self.LENGTHS[:i]) for i in range(len(self.LENGTHS) + 1)]
        self.executor = fmhax_c.Executor(
            library, {"dtype": 0, "is_group_mode": 1, "is_deterministic": 1, "batch": len(self.LENGTHS),
                      "nhead_q": self.NHEAD, "nhead_k": self.NHEAD, "hdim_q": self.HDIM, "hdim_v": self.HDIM,
                      "max_seqlen_q": 5, "max_seqlen_k": 5, "total_q": tokens, "total_k": tokens},
            (-1, 0), metadata, kernel=kernel_with_workspace())
        workspace = Tensor((self.executor.workspace_size(),), itemsize=1)
        seqstart = Tensor((len(starts),)).write("i", starts)
        self.call = fmhax_c.Call(library, self.HDIM ** -0.5, self.tensors, seqstart, workspace)
        self.executor.enqueue_forward(self.call, None)
        synchronize()

    def gradients(self, enqueue) -> tuple:
        for name in ("dq", "dk", "dv"):
            tensor = self.tensors[name]
            tensor.write("f", [math.nan] * tensor.numel())
        enqueue()
        synchronize()
        return tuple(self.tensors[name].bits() for name in ("dq", "dk", "dv"))


def kernel_with_workspace() -> str:
    """A kernel that needs a workspace even for short sequences, so that there is something to prepare."""
    count = ctypes.c_size_t()
    hip.fmhax_registered_kernel_count(ctypes.byref(count))
    for i in range(count.value):
        name = ctypes.c_char_p()
        hip.fmhax_registered_kernel_name(ctypes.c_size_t(i), ctypes.byref(name))
        if name.value.endswith(b"-general"):
            return name.value.decode()
    raise AssertionError("no general kernel is registered")


class BindingTest(unittest.TestCase):
    def test_every_way_gives_the_same_bits(self) -> None:
        for metadata in ("host", "device"):
            backward = Backward(metadata)
            self.assertGreater(backward.executor.workspace_size(), 0)
            executor, call = backward.executor, backward.call
            eager = backward.gradients(lambda: executor.enqueue(call, None))

            def prepared() -> None:
                executor.prepare_workspace_async(call, None)
                executor.enqueue_kernels(call, None)

            self.assertEqual(eager, backward.gradients(prepared))
            graph = fmhax_c.Graph(executor, call)
            self.assertEqual(eager, backward.gradients(lambda: graph.launch(None)))
            for name in ("dq", "dk", "dv"):
                self.assertTrue(all(map(math.isfinite, backward.tensors[name].values())))
            self.assertTrue(any(backward.tensors["dq"].values()))

    def test_the_gradient_of_v_adds_up(self) -> None:
        # Every row of P sums to 1, so over all keys of a head dv sums to the sum of dout.
        backward = Backward("host")
        backward.gradients(lambda: backward.executor.enqueue(backward.call, None))
        for column in range(Backward.NHEAD * Backward.HDIM):
            sums = [sum(backward.tensors[name].values()[column::Backward.NHEAD * Backward.HDIM]) for name in ("dv", "dout")]
            self.assertAlmostEqual(*sums, places=4)

    def test_a_refused_problem_says_which_field(self) -> None:
        with self.assertRaisesRegex(fmhax_c.FmhaxError, "nhead_q"):
            fmhax_c.Executor(library, {"dtype": 0, "batch": 1})


class RowsTest(unittest.TestCase):
    def test_lengths_add_up_and_stay_within_their_bounds(self) -> None:
        for count, longest, tokens in ((8, 512, 1507), (16, 8192, 48197), (2, 9, 10)):
            lengths = attention_rows.skewed_lengths(count, longest, tokens)
            self.assertEqual((len(lengths), max(lengths), sum(lengths)), (count, longest, tokens))
            self.assertGreaterEqual(min(lengths), 1)
        lengths = attention_rows.even_lengths(256, 16, 128, 19129)
        self.assertEqual((len(lengths), sum(lengths)), (256, 19129))
        self.assertTrue(all(16 <= length <= 128 for length in lengths))

    def test_flops_count_visible_pairs(self) -> None:
        def row(window):
            return attention_rows.Row("dense", 64, 2, 2, 3, 10, window=window)

        full = row((-1, -1))
        self.assertEqual(full.flops(), 2.5 * 4 * 3 * 2 * 64 * 10 * 10)
        self.assertEqual(row((-1, 0)).flops(), full.flops() / 2)
        self.assertEqual(row((2, 1)).visible_pairs(), 3 * sum(min(9, i + 1) - max(0, i - 2) + 1 for i in range(10)))

    def test_every_suite_has_rows_of_different_names(self) -> None:
        names = [row.name() for suite in attention_rows.SUITES.values() for row in suite()]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
