#!/usr/bin/env python3
"""Attention backward on a GPU: fmhax beside PyTorch's flash and variable-length backward and the vendor's, cuDNN through
PyTorch or AMD's aiter.

One process, one run, the same tensors; only backward passes are timed: the aten operators on one side, the C interface
of fmhax (bin/libfmhax_c.so, -DFMHAX_BUILD_BENCH=ON) on the other, taking turns. Times are medians between device
events, with the stream kept busy before each sample so that the host's part does not show; inputs rotate over several
sets so that they don't sit in the cache. "in a row" is the time of one of many calls enqueued one after another. Host
times are those of one of a dozen calls in a row, Python's part included. Errors are the largest of
||g - ref|| / ||ref|| over dq, dk and dv against fp64. Ratios are fmhax's time over the other's: below 1 fmhax is faster.
"""
from __future__ import annotations

import argparse
import datetime
import gc
import json
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

import attention_report  # noqa: E402
from attention_rows import SUITES, Row  # noqa: E402

BUSY_CYCLES = 400_000  # about 200 us
CALLS_IN_A_ROW = 30
HOST_CALLS_IN_A_ROW = 12  # few enough that none waits for the device
MOST_MS_OF_ONE_KIND = 1500.0  # fewer samples of what takes long
TOLERANCES = {"bf16": 1.0e-2, "fp16": 2.0e-3}
LONGEST_QUICK_REFERENCE = 4096


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", choices=[*SUITES, "all"], help="which rows, repeatable (default: all)")
    parser.add_argument("--filter", default="", help="only rows whose name contains this")
    parser.add_argument("--samples", type=int, default=20, help="timed calls of each kind and row (default: 20)")
    parser.add_argument("--quick", action="store_true",
                        help="5 samples, no fp64 reference for sequences beyond 4096 tokens")
    parser.add_argument("--kernel", default="", help="use this kernel of fmhax and no other")
    parser.add_argument("--dtype", choices=("bf16", "fp16"), default="bf16")
    parser.add_argument("--deterministic", action="store_true", help="both sides in deterministic mode, in every row")
    parser.add_argument("--library", type=Path, default=ROOT / "build/nvidia/bin/libfmhax_c.so")
    parser.add_argument("--json", type=Path, help="write the results to this file")
    parser.add_argument("--plots", type=Path, help="write SVG plots into this folder (needs matplotlib)")
    arguments = parser.parse_args()
    if arguments.samples < 1:
        parser.error("--samples must be at least 1")
    if not arguments.library.exists():
        parser.error(f"{arguments.library} is not there: configure with -DFMHAX_BUILD_BENCH=ON and build fmhax_c")
    if arguments.quick:
        arguments.samples = min(arguments.samples, 5)
    return arguments


def device_ms(contenders, sets: int, samples: int) -> dict[str, float]:
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = {c.name: [] for c in contenders}
    warm_ups = 2
    for i in range(-warm_ups, samples):
        for c in contenders:
            if sum(times[c.name]) > MOST_MS_OF_ONE_KIND:
                continue
            torch.cuda._sleep(BUSY_CYCLES)
            start.record()
            c.run((i + warm_ups) % sets)
            stop.record()
            stop.synchronize()
            if i >= 0:
                times[c.name].append(start.elapsed_time(stop))
    return {name: statistics.median(values) for name, values in times.items()}


def in_a_row_ms(contender, sets: int) -> float:
    import torch

    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(3):
        torch.cuda.synchronize()
        start.record()
        for i in range(CALLS_IN_A_ROW):
            contender.run(i % sets)
        stop.record()
        stop.synchronize()
        times.append(start.elapsed_time(stop) / CALLS_IN_A_ROW)
    return statistics.median(times)


def host_us(contender, sets: int, ms: float) -> float:
    import torch

    times = []
    for _ in range(4 if ms < 5 else 1):
        torch.cuda.synchronize()
        for i in range(HOST_CALLS_IN_A_ROW):
            begin = time.perf_counter_ns()
            contender.run(i % sets)
            times.append((time.perf_counter_ns() - begin) * 1e-3)
    torch.cuda.synchronize()
    return statistics.median(times)


def errors_of(row: Row, contenders, inputs, is_quick: bool) -> dict[str, float]:
    import torch

    from fp64_reference import worst_error

    if is_quick and row.longest() > LONGEST_QUICK_REFERENCE:
        return {}
    results = {c.name: tuple(g.clone() for g in c.gradients(0)) for c in contenders}
    torch.set_deterministic_debug_mode("default")  # matrix products would ask for a setting of cuBLAS
    packed = (t[: row.tokens()] for t in (inputs.q, inputs.k, inputs.v, inputs.dout))
    return worst_error(results, *packed, row.sequences(), inputs.scale, row.window)


def described(row: Row) -> dict:
    return {"name": row.name(), "suite": row.suite, "hdim": row.hdim, "nhead_q": row.nhead_q, "nhead_k": row.nhead_k,
            "batch": len(row.sequences()), "longest": row.longest(), "tokens": row.tokens(), "window": row.window,
            "is_packed": bool(row.lengths), "is_deterministic": row.is_deterministic, "dtype": row.dtype,
            "capacity_factor": row.capacity_factor, "flops": row.flops(), "contenders": {}}


def measure(row: Row, library, arguments: argparse.Namespace) -> dict:
    import torch

    from attention_sides import contenders_of, input_sets

    result = described(row)
    torch.set_deterministic_debug_mode("error" if row.is_deterministic else "default")
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        sets = input_sets(row)
    except RuntimeError as error:
        result["note"] = f"PyTorch's forward refuses: {str(error).splitlines()[0]}"
        return result
    contenders, result["kernel"] = contenders_of(row, sets, library, arguments.kernel)
    for c in contenders:
        if c.note:
            result["contenders"][c.name] = {"note": c.note}
    contenders = [c for c in contenders if not c.note]
    times = device_ms(contenders, len(sets), arguments.samples)
    for c in contenders:
        ms = times[c.name]
        entry = {"ms": ms, "tflops": row.flops() / ms * 1e-9, "host_us": host_us(c, len(sets), ms)}
        if row.suite == "prepare":
            entry["in_a_row_ms"] = in_a_row_ms(c, len(sets))
        result["contenders"][c.name] = entry
    errors = errors_of(row, contenders, sets[0], arguments.quick)
    for name, error in errors.items():
        result["contenders"][name]["error"] = error
    ours = [errors[name] for name in errors if name not in ("flash", "vendor", "captured")]
    result["is_right"] = all(error <= TOLERANCES[row.dtype] for error in ours)
    return result


def environment() -> dict:
    import torch

    if torch.version.hip:
        module = Path("/sys/module/amdgpu/version")  # not there where the driver is the kernel's own
        driver = module.read_text() if module.exists() else platform.release()
        runtime = f"ROCm {torch.version.hip}"
        try:
            vendor = f"aiter {version('aiter')}"
        except PackageNotFoundError:
            vendor = "no aiter"
    else:
        driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True,
                                text=True, check=False).stdout
        runtime = f"CUDA {torch.version.cuda}"
        vendor = f"cuDNN {torch.backends.cudnn.version()}"
    properties = torch.cuda.get_device_properties(0)
    return {"date": datetime.date.today().isoformat(), "card": properties.name,
            "multiprocessors": properties.multi_processor_count, "driver": (driver.split() or ["unknown"])[0],
            "torch": torch.__version__, "runtime": runtime, "vendor": vendor,
            "python": platform.python_version(), "command": " ".join(["bench/compare_torch.py", *sys.argv[1:]])}


def chosen_rows(arguments: argparse.Namespace) -> list[Row]:
    from dataclasses import replace

    suites = list(SUITES) if not arguments.suite or "all" in arguments.suite else list(dict.fromkeys(arguments.suite))
    rows = [replace(row, dtype=arguments.dtype, is_deterministic=row.is_deterministic or arguments.deterministic)
            for suite in suites for row in SUITES[suite]()]
    return [row for row in rows if arguments.filter in row.name()]


def main() -> int:
    arguments = parse_arguments()
    import torch

    from fmhax_c import Library

    if not torch.cuda.is_available():
        print("compare_torch.py: PyTorch sees no GPU", file=sys.stderr)
        return 2
    rows = chosen_rows(arguments)
    if not rows:
        print(f"compare_torch.py: no row's name contains '{arguments.filter}'", file=sys.stderr)
        return 2
    library = Library(arguments.library)
    begin = time.monotonic()
    results = []
    with torch.cuda.stream(torch.cuda.Stream()):
        for row in rows:
            try:
                results.append(measure(row, library, arguments))
            except RuntimeError as error:  # of the device, most likely, and then nothing more can be measured
                results.append({**described(row), "is_right": False,
                                "note": f"failed: {str(error).strip().splitlines()[0]}"})
                break
            gc.collect()
            torch.cuda.empty_cache()
            print(f"{time.monotonic() - begin:5.0f} s  {row.name()}", file=sys.stderr, flush=True)
    document = {"environment": environment(), "samples": arguments.samples, "seconds": time.monotonic() - begin,
                "rows": results}
    if arguments.json:
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    if arguments.plots:
        attention_report.write_plots(document, arguments.plots)
    print(attention_report.text(document))
    wrong = [r["name"] for r in results if not r.get("is_right", True)]
    for name in wrong:
        print(f"NOT IN ORDER: {name}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
