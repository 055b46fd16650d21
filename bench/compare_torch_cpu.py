#!/usr/bin/env python3
"""Attention backward on the CPU: fmhax and PyTorch's flash attention side by side.

Only the backward pass is timed: aten::_scaled_dot_product_flash_attention_for_cpu_backward on one side, the runner
that bench/ builds (-DFMHAX_BUILD_BENCH=ON) on the other, both resident, taking turns on the same inputs, in several
sets so that they don't sit in the cache. Medians; ratio > 1 means that fmhax is faster. The gradients are compared.

PyTorch comes from PyPI into a virtual environment of its own. PyPI's Linux wheel brings the CUDA libraries along:
about 2 GB of downloads, 5.4 GB on disk.
"""
from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Shape:
    batch: int
    nhead: int
    seqlen: int
    hdim: int
    dtype: str
    causal: bool

    def flops(self) -> float:
        """2.5 times the forward's 4 * batch * nhead * seqlen^2 * hdim, half of it with a causal mask."""
        full = 2.5 * 4 * self.batch * self.nhead * self.seqlen**2 * self.hdim
        return full / 2 if self.causal else full


SUITES = {
    "main": [Shape(2, 8, 1024, 64, "fp32", causal) for causal in (False, True)],
    "sweep": [Shape(2, 8, seqlen, 64, "fp32", causal) for causal in (False, True) for seqlen in (256, 512, 1024, 2048, 4096)],
    "hdim128": [Shape(2, 8, 1024, 128, "fp32", causal) for causal in (False, True)],
    "bf16": [Shape(2, 8, 1024, hdim, "bf16", causal) for hdim in (64, 128) for causal in (False, True)],
}


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=SUITES, help="which shapes, repeatable (default: all)")
    parser.add_argument("--threads", type=int, default=os.cpu_count(), help="threads of each side (default: all cores)")
    parser.add_argument("--repeats", type=int, default=15, help="measured runs of each side and shape (default: 15)")
    parser.add_argument("--sets", type=int, default=3, help="input sets that the runs rotate over (default: 3)")
    parser.add_argument("--deterministic", action="store_true", help="fmhax in deterministic mode")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--venv", type=Path, default=ROOT / "build/torch-venv", help="where PyTorch is, or gets installed")
    parser.add_argument("--runner", type=Path, default=ROOT / "build/host/bin/fmhax_backward_runner")
    arguments = parser.parse_args()
    if arguments.threads < 1 or arguments.repeats < 1 or arguments.sets < 1:
        parser.error("--threads, --repeats and --sets must be at least 1")
    if not arguments.runner.exists():
        parser.error(f"{arguments.runner} is not there: configure with -DFMHAX_BUILD_BENCH=ON and build fmhax_backward_runner")
    return arguments


def enter_venv(folder: Path) -> None:
    """Goes on under the virtual environment's Python, which is made first where it lacks."""
    python = folder / "bin/python"
    if Path(sys.prefix).resolve() == folder.resolve():
        return
    if not python.exists():
        venv.create(folder, with_pip=True)
    if subprocess.run([python, "-c", "import numpy, torch"], stderr=subprocess.DEVNULL).returncode != 0:
        print(f"installing PyTorch into {folder}", file=sys.stderr)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    os.execv(python, [str(python), __file__, *sys.argv[1:]])


class TorchSide:
    def __init__(self, shape: Shape, sets: int) -> None:
        import torch

        self.torch = torch
        self.causal = shape.causal
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[shape.dtype]
        generator = torch.Generator().manual_seed(1)

        def normal():
            size = (shape.batch, shape.nhead, shape.seqlen, shape.hdim)
            return torch.randn(size, generator=generator).to(dtype)

        self.sets = []
        for _ in range(sets):
            q, k, v, dout = (normal() for _ in range(4))
            o, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, shape.causal)
            self.sets.append((dout, q, k, v, o, lse))

    def backward(self, index: int):
        dout, q, k, v, o, lse = self.sets[index % len(self.sets)]
        return self.torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            dout, q, k, v, o, lse, 0.0, self.causal)

    def run_ms(self, index: int) -> float:
        begin = time.perf_counter()
        self.backward(index)
        return (time.perf_counter() - begin) * 1e3

    def write_inputs(self, path: Path) -> None:
        with path.open("wb") as file:
            for dout, q, k, v, o, lse in self.sets:
                for tensor in (q, k, v, o, dout, lse):
                    file.write(tensor.contiguous().view(self.torch.uint8).numpy().tobytes())

    def differences(self, path: Path) -> dict[str, float]:
        """Norm of the difference between the two sides' gradients over the norm of PyTorch's."""
        data = self.torch.frombuffer(bytearray(path.read_bytes()), dtype=self.sets[0][0].dtype)
        result = {}
        expected = self.backward(0)
        for name, ours, theirs in zip(("dq", "dk", "dv"), data.view(3, -1), expected):
            theirs = theirs.double().reshape(-1)
            result[name] = ((ours.double() - theirs).norm() / theirs.norm()).item()
        return result


class FmhaxSide:
    def __init__(self, runner: Path, shape: Shape, mode: str, threads: int, inputs: Path, output: Path) -> None:
        command = [runner, *map(str, (shape.batch, shape.nhead, shape.seqlen, shape.hdim)), shape.dtype,
                   "causal" if shape.causal else "full", mode, inputs, output]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, "FMHAX_HOST_THREADS": str(threads)})
        ready = self.process.stdout.readline().split()
        if not ready or ready[0] != "ready":
            raise SystemExit(f"{runner} did not start")
        self.kernel = ready[1]

    def run_ms(self) -> float:
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("the fmhax runner ended early")
        return float(line)

    def finish(self) -> None:
        self.process.stdin.close()
        if self.process.wait() != 0:
            raise SystemExit("the fmhax runner failed")


def measure(shape: Shape, arguments: argparse.Namespace) -> dict:
    pause_s = 0.02  # threads of the side that just ran may spin for a while before they sleep
    warm_ups = 2
    mode = "deterministic" if arguments.deterministic else "atomic"
    torch_side = TorchSide(shape, arguments.sets)
    with tempfile.TemporaryDirectory() as folder:
        inputs, output = Path(folder, "inputs"), Path(folder, "gradients")
        torch_side.write_inputs(inputs)
        fmhax_side = FmhaxSide(arguments.runner, shape, mode, arguments.threads, inputs, output)
        torch_ms, fmhax_ms = [], []
        for i in range(warm_ups + arguments.repeats):
            time.sleep(pause_s)
            torch_ms.append(torch_side.run_ms(i))
            time.sleep(pause_s)
            fmhax_ms.append(fmhax_side.run_ms())
        fmhax_side.finish()
        differences = torch_side.differences(output)
    torch_median = statistics.median(torch_ms[warm_ups:])
    fmhax_median = statistics.median(fmhax_ms[warm_ups:])
    return {
        **asdict(shape),
        "mode": mode,
        "kernel": fmhax_side.kernel,
        "torch_ms": torch_median,
        "fmhax_ms": fmhax_median,
        "ratio": torch_median / fmhax_median,
        "torch_gflops": shape.flops() / torch_median * 1e-6,
        "fmhax_gflops": shape.flops() / fmhax_median * 1e-6,
        "fmhax_us_per_token": fmhax_median * 1e3 / (shape.batch * shape.seqlen),
        "differences": differences,
    }


def print_row(row: dict) -> None:
    worst = max(row["differences"].values())
    print(f"{row['dtype']:>5} {row['hdim']:>5} {row['seqlen']:>7} {'causal' if row['causal'] else 'full':>7}"
          f" {row['torch_ms']:>10.2f} {row['fmhax_ms']:>10.2f} {row['ratio']:>7.2f}"
          f" {row['torch_gflops']:>8.1f} {row['fmhax_gflops']:>8.1f}"
          f" {row['fmhax_us_per_token']:>10.2f} {row['fmhax_us_per_token'] / row['seqlen'] * 1e3:>13.2f} {worst:>11.1e}",
          flush=True)


def main() -> int:
    arguments = parse_arguments()
    enter_venv(arguments.venv)
    import torch

    torch.set_num_threads(arguments.threads)
    shapes = list(dict.fromkeys(shape for suite in arguments.suite or SUITES for shape in SUITES[suite]))
    if not arguments.json:
        print(f"PyTorch {torch.__version__}, {arguments.threads} threads each, batch {shapes[0].batch}, "
              f"nhead {shapes[0].nhead}, medians of {arguments.repeats}")
        print("dtype  hdim  seqlen    mask   torch ms   fmhax ms   ratio  GFLOP/s  GFLOP/s   us/token  ns/token/key  difference")
        print("                                                           torch    fmhax      fmhax         fmhax")
    rows = []
    for shape in shapes:
        rows.append(measure(shape, arguments))
        if not arguments.json:
            print_row(rows[-1])
    tolerances = {"fp32": 2e-5, "bf16": 2e-2}  # twice what each side may be off from fp64
    agree = all(max(row["differences"].values()) <= tolerances[row["dtype"]] for row in rows)
    if arguments.json:
        print(json.dumps({"torch": torch.__version__, "threads": arguments.threads, "repeats": arguments.repeats,
                          "gradients_agree": agree, "rows": rows}))
    elif not agree:
        print("the gradients of the two sides disagree")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
