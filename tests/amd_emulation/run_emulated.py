#!/usr/bin/env python3
"""Runs a program that was built for AMD GPUs on an emulated one:

  run_emulated.py --build build/amd --arch gfx942 -- build/amd/bin/fmhax verify

Needs FMHAX_TINYGRAD, a checkout of github.com/tinygrad/tinygrad; without it the exit status is 77. See emulated_gpu.cpp
for how it works and emulator.py for what is emulated."""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile

SKIPPED = 77


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="gfx942",
                        help="for which the program has kernels: gfx942, gfx950, gfx1200 or gfx1201")
    parser.add_argument("--build", required=True, type=pathlib.Path, help="folder of the amd build, with its tests")
    parser.add_argument("--seed", default="1", help="decides the order of blocks and waves")
    parser.add_argument("--log", type=pathlib.Path,
                        help="append each launch to this file, with how often which instruction was executed (JSON)")
    parser.add_argument("--trace", type=pathlib.Path,
                        help="append each launch to this file, with the addresses, relative to the kernel's entry, of "
                        "what the first wave of the first block to run executed, in order (JSON)")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()

    if not os.environ.get("FMHAX_TINYGRAD"):
        print("skipped: FMHAX_TINYGRAD is not set to a checkout of tinygrad")
        return SKIPPED
    clangs = ["clang"] + [f"clang-{version}" for version in range(30, 13, -1)]
    clang = next(filter(None, map(shutil.which, clangs)), None)
    if clang is None:
        print("skipped: the emulator needs clang")
        return SKIPPED

    isa = "rdna4" if options.arch.startswith("gfx12") else "cdna"
    libraries = options.build.resolve() / "tests" / "amd_emulation"
    environment = dict(
        os.environ,
        LD_PRELOAD=str(libraries / "libfmhax_emulated_gpu.so"),
        CC=clang,
        FMHAX_EMULATION_ARCH=options.arch,
        FMHAX_EMULATION_ISA=isa,
        FMHAX_EMULATION_PYTHON=sys.executable,
        FMHAX_EMULATION_SEED=options.seed,
        FMHAX_EMULATION_WAVE=str(libraries / f"libfmhax_emulation_wave_{isa}.so"),
        FMHAX_EMULATOR=str(here / "emulator.py"),
        # tinygrad keeps what it compiled here.
        CACHEDB=os.environ.get("CACHEDB", os.path.join(tempfile.gettempdir(), "fmhax-emulation.db")),
    )
    if options.log:
        environment["FMHAX_EMULATION_LOG"] = str(options.log.resolve())
    if options.trace:
        environment["FMHAX_EMULATION_TRACE"] = str(options.trace.resolve())
    os.execvpe(options.command[0], options.command, environment)


if __name__ == "__main__":
    sys.exit(main())
