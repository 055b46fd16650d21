#!/usr/bin/env python3
"""Runs the listed hip-tests cases, a process for each, and compares what happens with what is known.

A case passes when its process ends with status 0 and nothing in it says that it was skipped. Exit status 0 means: none
crashed or hung, and the cases that don't pass are exactly the known ones.
"""
from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

OUTCOMES = ["passed", "failed", "skipped", "crashed", "hung"]
DIRTY = {"crashed", "hung"}


@dataclass(frozen=True)
class Case:
    area: str
    name: str
    file: str

    def program(self) -> str:
        return self.file.removesuffix(".cc").replace("/", "_")


@dataclass(frozen=True)
class Result:
    case: Case
    outcome: str
    detail: str


def read_cases(path: Path) -> list[Case]:
    cases, area = [], ""
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            area = line.removeprefix("== ")
        elif line and not line.startswith("#"):
            cases.append(Case(area, *line.split()))
    return cases


def read_known(path: Path) -> dict[str, str]:
    """Names of cases that don't pass, with the reason."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    return {name: reason.strip() for name, reason in (line.split(":", 1) for line in lines)}


def first_failure(output: str) -> str:
    match = re.search(r"([^/\s]+:\d+): failed: (.*?)(?=\n/|\Z)", output, re.DOTALL)
    return " ".join(f"{match[1]}: {match[2]}".split())[:300] if match else "status without a failed assertion"


def run_case(case: Case, programs: Path, environment: dict[str, str], limit: float) -> Result:
    if not (programs / case.program()).is_file():
        return Result(case, "failed", f"the suite has no {case.file}")
    # Catch2 calls the instances of a templated case "NAME - TYPE".
    command = [programs / case.program(), f"{case.name},{case.name} - *", "--reporter", "compact"]
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output = process.communicate(timeout=limit)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Result(case, "hung", f"still running after {limit:g} s")
    if process.returncode < 0:
        return Result(case, "crashed", signal.Signals(-process.returncode).name)
    if "No tests ran" in output:
        return Result(case, "failed", "the suite has no such case")
    if "HIP_SKIP_THIS_TEST" in output:
        return Result(case, "skipped", next((line for line in output.splitlines() if "Reason" in line), ""))
    if process.returncode != 0:
        return Result(case, "failed", first_failure(output))
    return Result(case, "passed", "")


def print_table(cases: list[Case], results: list[Result]) -> None:
    width = max(len(case.area) for case in cases)
    print(f"{'area':{width}}  cases  " + "  ".join(OUTCOMES))
    for area in dict.fromkeys(case.area for case in cases):
        of_area = [result.outcome for result in results if result.case.area == area]
        counts = "  ".join(f"{of_area.count(outcome):{len(outcome)}}" for outcome in OUTCOMES)
        print(f"{area:{width}}  {len(of_area):5}  {counts}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("programs", type=Path, help="the folder of the built programs")
    parser.add_argument("--only", default="", help="a regular expression that names of cases must match")
    parser.add_argument("--limit", type=float, default=60, help="seconds for a case (default: 60)")
    parser.add_argument("--devices", type=int, default=2, help="how many devices there are (default: 2)")
    arguments = parser.parse_args()

    here = Path(__file__).resolve().parent
    cases = [case for case in read_cases(here / "cases.txt") if re.search(arguments.only, case.name)]
    known = {name: reason for name, reason in read_known(here / "known.txt").items() if re.search(arguments.only, name)}
    # Without a file of exclusions the suite looks for AMD's own, by what ROCm says about the machine.
    environment = {**os.environ, "FMHAX_HOST_DEVICES": str(arguments.devices), "HIP_CATCH_EXCLUDE_FILE": "none"}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        programs = arguments.programs.resolve()
        results = list(pool.map(lambda case: run_case(case, programs, environment, arguments.limit), cases))

    print_table(cases, results)
    unexpected = 0
    for result in results:
        name = result.case.name
        if result.outcome == "passed":
            if name in known:
                unexpected += 1
                print(f"UNEXPECTED {name}: passes, but is known not to")
            continue
        if result.outcome in DIRTY or name not in known:
            unexpected += 1
            print(f"UNEXPECTED {name}: {result.outcome}: {result.detail}")
        else:
            print(f"known {name}: {result.outcome}: {known[name]}")
    counts = ", ".join(f"{sum(r.outcome == outcome for r in results)} {outcome}" for outcome in OUTCOMES)
    print(f"{len(results)} cases: {counts}; {unexpected} unexpected")
    return 0 if unexpected == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
