"""The two sides of bench/compare_torch.py: PyTorch's backward passes and fmhax's, over the same tensors."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

import torch

import fmhax_c
from attention_rows import Row

ROTATED_BYTES = 300e6  # several times the last-level cache
MOST_SETS = 8
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
FMHAX_DTYPES = {"fp16": 1, "bf16": 2}
aten = torch.ops.aten


def stream() -> int:
    return torch.cuda.current_stream().cuda_stream


class Inputs:
    """One set of tensors of a row, packed [rows, nhead, hdim], with o and lse as PyTorch's flash forward leaves them.
    Rows beyond the tokens are capacity that no sequence uses."""

    def __init__(self, row: Row, seed: int) -> None:
        self.row = row
        self.scale = 1 / math.sqrt(row.hdim)
        generator = torch.Generator("cuda").manual_seed(seed)

        def normal(nhead: int):
            return torch.randn((row.capacity(), nhead, row.hdim), generator=generator, device="cuda").to(DTYPES[row.dtype])

        self.q, self.k, self.v, self.dout = (normal(n) for n in (row.nhead_q, row.nhead_k, row.nhead_k, row.nhead_q))
        self.seqstart = None
        if row.lengths:
            starts = torch.tensor((0, *row.lengths)).cumsum(0)
            self.seqstart = starts.to(device="cuda", dtype=torch.int32)
        causal = row.is_causal()
        left, right = row.window
        self.window = {} if causal or row.window == (-1, -1) else {"window_size_left": left, "window_size_right": right}
        longest = row.longest()
        o, lse, self.rng_state, self.unused, _ = aten._flash_attention_forward(
            *self.flash_views(self.q, self.k, self.v), self.seqstart, self.seqstart, longest, longest, 0.0, causal, False,
            scale=self.scale, **self.window)
        self.flash_o, self.flash_lse = o, lse
        if row.lengths and lse.dim() == 3:  # [sequences, nhead, longest], as older versions have it
            lse = torch.cat([one[:, :length] for one, length in zip(lse, row.lengths)], 1)
        self.o, self.lse = o.reshape(-1, row.nhead_q, row.hdim), lse
        if row.capacity_factor > 1:
            self.o = torch.zeros_like(self.q)
            self.o[: row.tokens()] = o
            self.lse = torch.zeros((row.nhead_q, row.capacity()), device="cuda")
            self.lse[:, : row.tokens()] = lse

    def flash_views(self, *tensors):
        """As the flash operators take them: packed without unused rows, or [batch, seqlen, nhead, hdim]."""
        row = self.row
        if row.lengths:
            return [t[: row.tokens()] for t in tensors]
        return [t.view(row.batch, row.seqlen, *t.shape[1:]) for t in tensors]

    def bytes(self) -> int:
        """With the gradients."""
        return 2 * sum(t.numel() * t.element_size() for t in (self.q, self.k, self.v, self.dout))


def input_sets(row: Row) -> list[Inputs]:
    first = Inputs(row, 1)
    count = min(MOST_SETS, max(2, math.ceil(ROTATED_BYTES / first.bytes())))
    return [first] + [Inputs(row, seed) for seed in range(2, count + 1)]


@dataclass
class Contender:
    """run(i) enqueues the backward pass of input set i and returns something that packed() turns into dq, dk, dv."""

    name: str
    run: Callable[[int], Any]
    packed: Callable[[Any], tuple] = lambda gradients: gradients
    poison: Callable[[int], None] = lambda i: None  # sets the results of set i to NaN, where they outlive the call
    note: str = ""

    def gradients(self, i: int) -> tuple:
        """dq, dk, dv of one more run, packed; valid until the next."""
        self.poison(i)
        result = self.packed(self.run(i))
        torch.cuda.synchronize()
        return result


def flash(row: Row, sets: list[Inputs]) -> Contender:
    longest = row.longest()
    calls = []
    for s in sets:
        q, k, v, dout = s.flash_views(s.q, s.k, s.v, s.dout)
        calls.append(((dout, q, k, v, s.flash_o, s.flash_lse, s.seqstart, s.seqstart, longest, longest, 0.0,
                       row.is_causal(), s.rng_state, s.unused), {"scale": s.scale, **s.window}))

    def run(i: int):
        arguments, named = calls[i]
        return aten._flash_attention_backward(*arguments, **named)

    return Contender("flash", run, lambda gradients: tuple(g.flatten(0, -3) for g in gradients))


def cudnn(row: Row, sets: list[Inputs]) -> Contender:
    calls = []
    for s in sets:
        q, k, v, dout = (t.transpose(1, 2) for t in s.flash_views(s.q, s.k, s.v, s.dout))
        o, lse, start_q, start_k, max_q, max_k, seed, offset, _ = aten._scaled_dot_product_cudnn_attention(
            q, k, v, None, True, 0.0, row.is_causal(), False, scale=s.scale)
        calls.append(((dout, q, k, v, o, lse, seed, offset, None, start_q, start_k, max_q, max_k, 0.0, row.is_causal()),
                      {"scale": s.scale}))

    def run(i: int):
        arguments, named = calls[i]
        return aten._scaled_dot_product_cudnn_attention_backward(*arguments, **named)

    return Contender("vendor", run, lambda gradients: tuple(g.transpose(1, 2).flatten(0, 1) for g in gradients))


def aiter(row: Row, sets: list[Inputs]) -> Contender:
    """AMD's library through its autograd functions: host times have PyTorch's bookkeeping in them."""
    try:
        from aiter import flash_attn_func, flash_attn_varlen_func
    except ImportError as error:
        raise RuntimeError(str(error)) from error
    calls = []
    for s in sets:
        q, k, v = (t.detach().requires_grad_() for t in s.flash_views(s.q, s.k, s.v))
        named = {"softmax_scale": s.scale, "causal": row.is_causal(), "window_size": row.window if s.window else (-1, -1),
                 "deterministic": row.is_deterministic}
        lengths = (s.seqstart, s.seqstart, row.longest(), row.longest()) if row.lengths else ()
        o = (flash_attn_varlen_func if row.lengths else flash_attn_func)(q, k, v, *lengths, **named)
        calls.append((o[0] if isinstance(o, tuple) else o, (q, k, v), *s.flash_views(s.dout)))

    def run(i: int):
        o, inputs, dout = calls[i]
        return torch.autograd.grad(o, inputs, dout, retain_graph=True)

    return Contender("vendor", run, lambda gradients: tuple(g.flatten(0, -3) for g in gradients))


def captured(name: str, eager: Contender, count: int) -> Contender:
    """The same calls, each captured by PyTorch into a graph of its own."""
    graphs, results = [], []
    for i in range(count):
        eager.run(i)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results.append(eager.run(i))
        graphs.append(graph)

    def run(i: int):
        graphs[i].replay()
        return results[i]

    return Contender(name, run, eager.packed, eager.poison)


class Fmhax:
    """A plan for a row, and one call for each input set."""

    def __init__(self, library: fmhax_c.Library, row: Row, sets: list[Inputs], metadata: str = "host",
                 keepalive: str = "event", kernel: str = "") -> None:
        longest = row.longest()
        problem = {"dtype": FMHAX_DTYPES[row.dtype], "is_deterministic": row.is_deterministic, "nhead_q": row.nhead_q,
                   "nhead_k": row.nhead_k, "hdim_q": row.hdim, "hdim_v": row.hdim, "max_seqlen_q": longest,
                   "max_seqlen_k": longest, "batch": len(row.sequences())}
        if row.lengths:
            problem |= {"is_group_mode": 1, "total_q": row.capacity(), "total_k": row.capacity()}
        self.executor = fmhax_c.Executor(library, problem, row.window, metadata, keepalive, kernel)
        self.kernel = self.executor.kernel_name()
        self.row = row
        size = self.executor.workspace_size()
        self.workspace = torch.empty(size, dtype=torch.uint8, device="cuda") if size else None
        self.gradients = [tuple(torch.full_like(t, float("nan")) for t in (s.q, s.k, s.v)) for s in sets]
        self.calls = [self._call(library, s, gradients) for s, gradients in zip(sets, self.gradients)]

    def _call(self, library: fmhax_c.Library, s: Inputs, gradients) -> fmhax_c.Call:
        row = self.row
        tensors = {"q": s.q, "k": s.k, "v": s.v, "o": s.o, "dout": s.dout,
                   **dict(zip(("dq", "dk", "dv"), gradients))}
        shape = (1, row.capacity()) if row.lengths else (row.batch, row.seqlen)
        tensors = {name: t.view(*shape, *t.shape[1:]) for name, t in tensors.items()}
        for name, rows in (("lse", s.lse), ("d", torch.empty_like(s.lse))):
            rows = rows.unsqueeze(0) if row.lengths else rows  # [batch, nhead, seqlen]
            tensors[name] = rows.transpose(1, 2).unsqueeze(-1)
        return fmhax_c.Call(library, s.scale, tensors, s.seqstart, self.workspace)

    def packed(self, i: int) -> tuple:
        return tuple(g[: self.row.tokens()] for g in self.gradients[i])

    def poison(self, i: int) -> None:
        for gradient in self.gradients[i]:
            gradient.fill_(float("nan"))

    def eager(self, name: str = "fmhax") -> Contender:
        # Looked up once: what Python does in run() counts as host time.
        enqueue, calls, on = self.executor.enqueue, self.calls, stream()

        def run(i: int) -> int:
            enqueue(calls[i], on)
            return i

        return Contender(name, run, self.packed, self.poison)

    def graph(self, name: str = "graph") -> Contender:
        launches = [fmhax_c.Graph(self.executor, call).launch for call in self.calls]
        on = stream()

        def run(i: int) -> int:
            launches[i](on)
            return i

        return Contender(name, run, self.packed, self.poison)

    def kernels_alone(self, name: str = "kernels") -> Contender:
        """Over a workspace that is prepared once: all sets have the same lengths."""
        self.executor.prepare_workspace_async(self.calls[0], stream())
        torch.cuda.synchronize()

        def run(i: int) -> int:
            self.executor.enqueue_kernels(self.calls[i], stream())
            return i

        return Contender(name, run, self.packed, self.poison)


def fmhax_plan(library: fmhax_c.Library, row: Row, sets: list[Inputs], kernel: str = "") -> Fmhax:
    """With metadata made on the device where the kernels can."""
    if row.lengths:
        try:
            return Fmhax(library, row, sets, "device", kernel=kernel)
        except fmhax_c.FmhaxError as error:
            if error.code != fmhax_c.UNSUPPORTED:
                raise
    return Fmhax(library, row, sets, kernel=kernel)


def contenders_of(row: Row, sets: list[Inputs], library: fmhax_c.Library, kernel: str) -> tuple[list[Contender], str]:
    """Those that take the row; one that refuses is there with the reason as its note. And fmhax's kernel."""
    made: list[Contender] = []
    chosen = ""

    def attempt(name: str, make: Callable[[], Contender]) -> None:
        try:
            contender = make()
            contender.run(0)
            torch.cuda.synchronize()
            made.append(contender)
        except (RuntimeError, NotImplementedError) as error:
            made.append(Contender(name, lambda i: None, note=str(error).strip().splitlines()[0]))

    if row.suite == "prepare":
        for metadata, keepalive in (("device", "event"), ("host", "event"), ("host", "host-function")):
            name = "device" if metadata == "device" else f"host, {keepalive}"
            try:
                plan = Fmhax(library, row, sets, metadata, keepalive, kernel)
            except fmhax_c.FmhaxError as error:
                made.append(Contender(name, lambda i: None, note=str(error).splitlines()[0]))
                continue
            chosen = plan.kernel
            if not any(c.name == "kernels" for c in made):
                alone = plan.kernels_alone()
                attempt("kernels", lambda: alone)
                attempt("kernels, graph", lambda: captured("kernels, graph", alone, len(sets)))
            attempt(name, lambda: plan.eager(name))
            attempt(name + ", graph", lambda: plan.graph(name + ", graph"))
        return made, chosen

    attempt("flash", lambda: flash(row, sets))
    if row.lengths:
        if not made[0].note:
            attempt("captured", lambda: captured("captured", made[0], len(sets)))
    if torch.version.hip:
        attempt("vendor", lambda: aiter(row, sets))
    elif not row.lengths and not sets[0].window:
        attempt("vendor", lambda: cudnn(row, sets))
    try:
        plan = fmhax_plan(library, row, sets, kernel)
    except fmhax_c.FmhaxError as error:
        made.append(Contender("fmhax", lambda i: None, note=str(error).splitlines()[0]))
        return made, chosen
    attempt("fmhax", plan.eager)
    attempt("graph", plan.graph)
    return made, plan.kernel
