"""fmhax for Python through its C interface (include/fmhax/fmhax.h): executors and graphs over torch's tensors.

The structures hold the fields that are used here, from the start; their size tells the library to take its defaults for
what it has beyond them.
"""
from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_float, c_int32, c_int64, c_size_t, c_uint32, c_void_p
from pathlib import Path

DTYPES = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2}
KEEPALIVES = {"event": 0, "host-function": 1}
METADATA_PATHS = {"host": 0, "device": 1}
UNSUPPORTED = 2


class Mask(ctypes.Structure):
    _fields_ = [("alignment", c_int32), ("window_left", c_int64), ("window_right", c_int64)]


class Problem(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("dtype", c_int32), ("is_group_mode", c_int32), ("is_deterministic", c_int32),
                *((name, c_int64) for name in ("batch", "nhead_q", "nhead_k", "hdim_q", "hdim_v", "max_seqlen_q",
                                               "max_seqlen_k", "total_q", "total_k")),
                ("mask", Mask), ("logical_lengths", c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("dtype", c_int32),
                *((name, c_int64) for name in ("batch", "seqlen", "nhead", "hdim", "stride_batch", "stride_seqlen",
                                               "stride_nhead", "stride_hdim"))]

    @staticmethod
    def of(tensor) -> "Tensor":
        """Of a torch tensor [batch, seqlen, nhead, hdim] in any layout with contiguous hdim."""
        return Tensor(tensor.data_ptr(), DTYPES[str(tensor.dtype)], *tensor.shape, *tensor.stride())


class SequenceLengths(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32),
                *((name, c_void_p) for name in ("seqstart_q", "seqstart_k", "seqlen_q", "seqlen_k", "cu_seqlen_q",
                                                "cu_seqlen_k"))]


TENSORS = ("q", "k", "v", "o", "dout", "lse", "d", "dq", "dk", "dv")


class CallArguments(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("scale", c_float), *((name, Tensor) for name in TENSORS),
                ("lengths", POINTER(SequenceLengths)), ("workspace", c_void_p), ("workspace_bytes", c_int64),
                ("status", c_void_p)]


class ExecutorOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("keepalive", c_int32), ("metadata_path", c_int32), ("kernel", c_char_p)]


class FmhaxError(RuntimeError):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Library:
    """The loaded library; its functions raise FmhaxError."""

    SIGNATURES = {
        "problem_init": [POINTER(Problem), c_size_t],
        "sequence_lengths_init": [POINTER(SequenceLengths), c_size_t],
        "call_arguments_init": [POINTER(CallArguments), c_size_t],
        "executor_options_init": [POINTER(ExecutorOptions), c_size_t],
        "executor_create": [POINTER(Problem), POINTER(ExecutorOptions), POINTER(c_void_p)],
        "executor_kernel_name": [c_void_p, POINTER(c_char_p)],
        "executor_workspace_size": [c_void_p, POINTER(c_int64)],
        "executor_enqueue": [c_void_p, POINTER(CallArguments), c_void_p],
        "executor_prepare_workspace_async": [c_void_p, POINTER(CallArguments), c_void_p],
        "executor_enqueue_kernels": [c_void_p, POINTER(CallArguments), c_void_p],
        "executor_enqueue_forward": [c_void_p, POINTER(CallArguments), c_void_p],
        "graph_create": [c_void_p, POINTER(CallArguments), POINTER(c_void_p)],
        "graph_launch": [c_void_p, c_void_p],
    }

    def __init__(self, path: Path) -> None:
        self.raw = ctypes.CDLL(str(path))
        self.raw.fmhax_last_error_message.restype = c_char_p
        for name, arguments in self.SIGNATURES.items():
            function = getattr(self.raw, "fmhax_" + name)
            function.argtypes, function.restype, function.errcheck = arguments, c_int32, self._check
        for name in ("executor_destroy", "graph_destroy"):
            function = getattr(self.raw, "fmhax_" + name)
            function.argtypes, function.restype = [c_void_p], None

    def _check(self, code, function, arguments):
        if code != 0:
            raise FmhaxError(code, self.raw.fmhax_last_error_message().decode())
        return code

    def made(self, structure, initialise: str, **values):
        """A structure with its defaults and then these values."""
        result = structure()
        getattr(self.raw, f"fmhax_{initialise}_init")(byref(result), ctypes.sizeof(result))
        for name, value in values.items():
            setattr(result, name, value)
        return result


class Executor:
    """A plan. `problem` takes the fields of Problem by name; `window` is (left, right), -1 for unbounded."""

    def __init__(self, library: Library, problem: dict, window=(-1, -1), metadata: str = "host",
                 keepalive: str = "event", kernel: str = "") -> None:
        self.raw = library.raw
        self.library = library
        self.handle = c_void_p()
        made = library.made(Problem, "problem", mask=Mask(0, *window), **problem)
        options = library.made(ExecutorOptions, "executor_options", metadata_path=METADATA_PATHS[metadata],
                               keepalive=KEEPALIVES[keepalive], kernel=kernel.encode())
        self.raw.fmhax_executor_create(byref(made), byref(options), byref(self.handle))
        self._enqueue = self.raw.fmhax_executor_enqueue

    def __del__(self) -> None:
        self.raw.fmhax_executor_destroy(self.handle)

    def kernel_name(self) -> str:
        name = c_char_p()
        self.raw.fmhax_executor_kernel_name(self.handle, byref(name))
        return name.value.decode()

    def workspace_size(self) -> int:
        size = c_int64()
        self.raw.fmhax_executor_workspace_size(self.handle, byref(size))
        return size.value

    def enqueue(self, call: "Call", stream: int) -> None:
        self._enqueue(self.handle, call.reference, stream)

    def prepare_workspace_async(self, call: "Call", stream: int) -> None:
        self.raw.fmhax_executor_prepare_workspace_async(self.handle, call.reference, stream)

    def enqueue_kernels(self, call: "Call", stream: int) -> None:
        self.raw.fmhax_executor_enqueue_kernels(self.handle, call.reference, stream)

    def enqueue_forward(self, call: "Call", stream: int) -> None:
        self.raw.fmhax_executor_enqueue_forward(self.handle, call.reference, stream)


class Call:
    """The arguments of a call, and what keeps their memory alive. `tensors` holds those named in TENSORS,
    [batch, seqlen, nhead, hdim]; `seqstart` a device array in group mode; `workspace` device bytes."""

    def __init__(self, library: Library, scale: float, tensors: dict, seqstart=None, workspace=None) -> None:
        self.kept = (tensors, seqstart, workspace)
        self.arguments = library.made(CallArguments, "call_arguments", scale=scale,
                                      **{name: Tensor.of(tensor) for name, tensor in tensors.items()})
        if seqstart is not None:
            starts = seqstart.data_ptr()
            self.lengths = library.made(SequenceLengths, "sequence_lengths", seqstart_q=starts, seqstart_k=starts)
            self.arguments.lengths = ctypes.pointer(self.lengths)
        if workspace is not None:
            self.arguments.workspace = workspace.data_ptr()
            self.arguments.workspace_bytes = workspace.numel()
        self.reference = byref(self.arguments)


class Graph:
    def __init__(self, executor: Executor, call: Call) -> None:
        self.raw = executor.raw
        self.call = call
        self.handle = c_void_p()
        self.raw.fmhax_graph_create(executor.handle, call.reference, byref(self.handle))
        self._launch = self.raw.fmhax_graph_launch

    def __del__(self) -> None:
        self.raw.fmhax_graph_destroy(self.handle)

    def launch(self, stream: int) -> None:
        self._launch(self.handle, stream)
