#!/usr/bin/env python3
"""What bench/compare_torch.py measured, as text, Markdown (docs/benchmarks.md) or SVG plots.

    bench/attention_report.py results.json [--markdown docs/benchmarks.md] [--plots docs/images] [--log TITLE=FILE]
"""
from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path

COLUMNS = ("row", "flash ms", "TF", "captured", "vendor ms", "TF", "fmhax ms", "TF", "graph ms", "TF", "/flash", "/capt",
           "/vendor", "host: flash", "capt", "fmhax", "graph", "err: flash", "vendor", "fmhax", "kernel")


def get(row: dict, name: str, field: str):
    return row["contenders"].get(name, {}).get(field)


def ratio(row: dict, other: str, ours: str = "graph"):
    """Time of fmhax over the other's; below 1: fmhax is faster."""
    mine, theirs = get(row, ours, "ms"), get(row, other, "ms")
    return mine / theirs if mine and theirs else None


def geometric_mean(values) -> float:
    values = [v for v in values if v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def number(value, form: str) -> str:
    return "-" if value is None else format(value, form)


def cells(row: dict) -> list[str]:
    """One line of the main table; eager calls are compared with eager ones, graphs with graphs."""
    out = [row["name"]]
    out += [number(get(row, "flash", "ms"), ".3f"), number(get(row, "flash", "tflops"), ".0f"),
            number(get(row, "captured", "ms"), ".3f")]
    for name in ("vendor", "fmhax", "graph"):
        out += [number(get(row, name, "ms"), ".3f"), number(get(row, name, "tflops"), ".0f")]
    out += [number(ratio(row, "flash", "fmhax"), ".2f"), number(ratio(row, "captured"), ".2f"),
            number(ratio(row, "vendor", "fmhax"), ".2f")]
    out += [number(get(row, name, "host_us"), ".1f") for name in ("flash", "captured", "fmhax", "graph")]
    out += [number(get(row, name, "error"), ".1e") for name in ("flash", "vendor")]
    errors = [get(row, name, "error") for name in ("fmhax", "graph")]
    known = [e for e in errors if e is not None]
    out += [number(max(known) if known else None, ".1e"), row.get("kernel") or "-"]
    return out


def prepare_cells(row: dict) -> list[list[str]]:
    alone = {kind: get(row, "kernels" + kind, "in_a_row_ms") for kind in ("", ", graph")}
    lines = []
    for name, values in row["contenders"].items():
        if "note" in values:
            continue
        base = alone[", graph" if name.endswith(", graph") else ""]
        lines.append([row["name"], name, f"{values['ms'] * 1e3:.1f}", f"{values['in_a_row_ms'] * 1e3:.1f}",
                      number(values["in_a_row_ms"] / base if base else None, ".2f"), f"{values['host_us']:.1f}",
                      number(values.get("error"), ".1e"), row.get("kernel") or "-"])
    return lines


PREPARE_COLUMNS = ("row", "way", "one call us", "in a row us", "/kernels", "host us", "error", "kernel")


def aligned(columns, lines: list[list[str]]) -> list[str]:
    widths = [max(len(line[i]) for line in [list(columns), *lines]) for i in range(len(columns))]
    return ["  ".join(text.ljust(width) if i == 0 or i == len(columns) - 1 else text.rjust(width)
                      for i, (text, width) in enumerate(zip(line, widths))).rstrip() for line in [list(columns), *lines]]


def summary(document: dict) -> list[str]:
    """What the rows come to, with the aims that they are held against."""
    rows = document["rows"]
    of = {suite: [r for r in rows if r["suite"] == suite] for suite in ("dense", "shapes", "varlen", "short", "prepare")}
    lines = []
    for suite in ("dense", "shapes"):
        for other in ("flash", "vendor"):
            ratios = [x for x in (ratio(r, other, "fmhax") for r in of[suite]) if x]
            if ratios:
                lines.append(f"{suite}: time over {other}: geometric mean {geometric_mean(ratios):.3f}, "
                             f"worst {max(ratios):.2f}, best {min(ratios):.2f} of {len(ratios)} rows")
    for r in of["varlen"] + of["short"]:
        value = ratio(r, "captured")
        if value:
            lines.append(f"{r['name']}: graph over PyTorch captured {value:.2f}")
    by_key = {(r["batch"], r["tokens"], r["capacity_factor"]): r for r in of["varlen"]}
    for (batch, tokens, factor), r in by_key.items():
        exact = by_key.get((batch, tokens, 1))
        if factor > 1 and exact and get(r, "graph", "ms") and get(exact, "graph", "ms"):
            lines.append(f"{batch} sequences, {tokens} tokens: capacity x{factor} over exact "
                         f"{get(r, 'graph', 'ms') / get(exact, 'graph', 'ms'):.3f}")
    for r in of["prepare"]:
        for kind in ("", ", graph"):
            device, alone = get(r, "device" + kind, "in_a_row_ms"), get(r, "kernels" + kind, "in_a_row_ms")
            if device and alone:
                lines.append(f"{r['name']}: device path over kernels alone{kind or ', eager'} {device / alone:.2f}")
    return lines


def notes(document: dict) -> list[str]:
    out = [f"{row['name']}: {name}: {values['note']}" for row in document["rows"]
           for name, values in row["contenders"].items() if "note" in values]
    return out + [f"{row['name']}: {row['note']}" for row in document["rows"] if "note" in row]


def heading(document: dict) -> str:
    e = document["environment"]
    return (f"{e['card']} ({e['multiprocessors']} SM), driver {e['driver']}, {e['runtime']}, PyTorch {e['torch']}, "
            f"vendor: {e['vendor']}, {e['date']}; medians of {document['samples']}, {document['seconds']:.0f} s: {e['command']}")


def text(document: dict) -> str:
    main = [cells(row) for row in document["rows"] if row["suite"] != "prepare"]
    lines = [heading(document), ""]
    if main:
        lines += ["device ms, TFLOP/s, fmhax's time over the other's, host us of a call, error against fp64", ""]
        lines += aligned(COLUMNS, main)
    prepare = [line for row in document["rows"] if row["suite"] == "prepare" for line in prepare_cells(row)]
    if prepare:
        lines += ["", *aligned(PREPARE_COLUMNS, prepare)]
    lines += ["", *summary(document)]
    if notes(document):
        lines += ["", *notes(document)]
    return "\n".join(lines)


def markdown_table(columns, lines: list[list[str]]) -> list[str]:
    out = ["| " + " | ".join(columns) + " |", "| --- " + "| ---: " * (len(columns) - 2) + "| --- |"]
    return out + ["| " + " | ".join(line) + " |" for line in lines]


def markdown(document: dict, images: list[str], logs: list[tuple[str, str]]) -> str:
    e = document["environment"]
    lines = ["# Benchmarks", "",
             f"Measured on one {e['card']} ({e['multiprocessors']} SM), driver {e['driver']}, {e['runtime']}, PyTorch "
             f"{e['torch']}, vendor: {e['vendor']}, on {e['date']}, with", "", "```sh", f"python3 {e['command']}", "```", "",
             f"Backward alone, {document['rows'][0]['dtype'] if document['rows'] else 'bf16'}; medians of {document['samples']} between device events, the "
             "sides taking turns on the same tensors, inputs rotated. FLOPs are 2.5 times the forward's 4 · batch · nhead · "
             "seqlen² · hdim, half that with a causal mask, the visible pairs for windows. Ratios are fmhax's time over "
             "the other's (eager over eager, graph over captured). Host times are µs of one of a dozen calls in a row from Python. Errors are "
             "‖g − ref‖ / ‖ref‖ against fp64, the worst of dq, dk, dv.", "", "## In short", ""]
    lines += [f"- {line}" for line in summary(document)]
    titles = {"dense": "Dense: 16 384 tokens, 2 048 columns", "shapes": "More shapes",
              "varlen": "Packed sequences of skewed lengths", "short": "256 short sequences"}
    for suite, title in titles.items():
        rows = [cells(row) for row in document["rows"] if row["suite"] == suite]
        if rows:
            lines += ["", f"## {title}", "", *markdown_table(COLUMNS, rows)]
    for image in images:
        lines += ["", f"![{Path(image).stem}]({image})"]
    prepare = [line for row in document["rows"] if row["suite"] == "prepare" for line in prepare_cells(row)]
    if prepare:
        lines += ["", "## What the preparation costs", "",
                  "32 packed sequences. One call: latency on a stream that was kept busy before; in a row: one of "
                  "30 calls enqueued one after another. The ratio is over the kernels alone, in a row.", "",
                  *markdown_table(PREPARE_COLUMNS, prepare)]
    if notes(document):
        lines += ["", "## What was refused", "", *[f"- {note}" for note in notes(document)]]
    for title, log in logs:
        lines += ["", f"## `{title}`", "", "```", *log.rstrip().splitlines(), "```"]
    return "\n".join(lines) + "\n"


def write_plots(document: dict, folder: Path) -> list[Path]:
    """TFLOP/s over the length for the dense rows; nothing without matplotlib."""
    try:
        import matplotlib

        matplotlib.use("svg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("attention_report.py: no matplotlib, no plots", file=sys.stderr)
        return []
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    dense = [row for row in document["rows"] if row["suite"] == "dense"]
    kinds = sorted({(row["hdim"], tuple(row["window"])) for row in dense})
    if kinds:
        figure, axes = plt.subplots(1, len(kinds), figsize=(4 * len(kinds), 3.2), squeeze=False)
        for axis, (hdim, window) in zip(axes[0], kinds):
            rows = [row for row in dense if (row["hdim"], tuple(row["window"])) == (hdim, window)]
            for name, label in (("flash", "PyTorch flash"), ("vendor", document["environment"]["vendor"]), ("fmhax", "fmhax")):
                points = [(row["longest"], get(row, name, "tflops")) for row in rows if get(row, name, "tflops")]
                if points:
                    axis.plot(*zip(*points), marker="o", label=label)
            axis.set_xscale("log", base=2)
            axis.set_ylim(bottom=0)
            axis.set_title(f"hdim {hdim}" + (", causal" if window == (-1, 0) else ""))
            axis.set_xlabel("seqlen")
        axes[0][0].set_ylabel("TFLOP/s, backward")
        axes[0][0].legend()
        figure.tight_layout()
        written.append(folder / "backward_dense.svg")
        figure.savefig(written[-1], metadata={"Date": None})
    packed = [row for row in document["rows"] if row["suite"] in ("varlen", "short") and get(row, "captured", "ms")]
    if packed:
        figure, axis = plt.subplots(figsize=(8, 0.5 * len(packed) + 1.2))
        for i, (name, label) in enumerate((("captured", "PyTorch, captured"), ("graph", "fmhax graph"))):
            values = [(get(row, name, "ms") or 0) / get(row, "captured", "ms") for row in packed]
            axis.barh([y + 0.38 * i for y in range(len(packed))], values, height=0.36, label=label)
        axis.set_yticks([y + 0.19 for y in range(len(packed))], [row["name"] for row in packed], fontsize=7)
        axis.invert_yaxis()
        axis.set_xlabel("device time, PyTorch captured = 1")
        axis.legend(fontsize=7)
        figure.tight_layout()
        written.append(folder / "backward_packed.svg")
        figure.savefig(written[-1], metadata={"Date": None})
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="what compare_torch.py --json wrote")
    parser.add_argument("--markdown", type=Path, help="write this document")
    parser.add_argument("--plots", type=Path, help="write SVG plots into this folder")
    parser.add_argument("--log", action="append", default=[], metavar="TITLE=FILE",
                        help="what another command printed, for the end of the document")
    arguments = parser.parse_args()
    logs = [(title, Path(file).read_text()) for title, _, file in (log.rpartition("=") for log in arguments.log)]
    document = json.loads(arguments.results.read_text())
    images = write_plots(document, arguments.plots) if arguments.plots else []
    if arguments.markdown:
        base = arguments.markdown.resolve().parent
        arguments.markdown.write_text(markdown(document, [str(p.resolve().relative_to(base)) for p in images], logs))
    else:
        print(text(document))
    return 0


if __name__ == "__main__":
    sys.exit(main())
