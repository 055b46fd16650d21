#!/usr/bin/env python3
"""Copies hip-tests' sources and turns what only a HIP compiler understands into C++.

    K<<<grid, block, shared, stream>>>(args)   hipLaunchKernelGGL(K, grid, block, shared, stream, args)
    hipLaunchKernelGGL(K, ...)                 the same, with HIP_TESTS_DEDUCED(K) where K's template arguments are deduced
    reinterpret_cast<void*>(K)                 ::hiphost::kernel(K), which makes K launchable

A file is written only when its text changes, so that a build stays incremental.
"""
from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

SUFFIXES = {".cc", ".cpp", ".h", ".hh", ".hpp", ".inl"}
NAME = r"(?:\w+\s*::\s*)*\w+"
COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
KERNEL = re.compile(
    r"(?P<template>template\s*<[^;{}()]*>\s*)?"
    r"(?:(?:static|inline|extern)\s+)*(?:__global__\s+(?:static\s+)?void|void\s+__global__)\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(?P<name>\w+)\s*\("
)
LAUNCH = re.compile(rf"(?P<kernel>{NAME}(?:\s*<[^<>;()]*>)?)\s*<<<(?P<config>[^;]*?)>>>\s*\(")
LAUNCH_MACRO = re.compile(rf"\bhipLaunchKernelGGL\s*\(\s*(?:\(\s*(?P<wrapped>{NAME})\s*\)|(?P<plain>{NAME}))\s*,")
ADDRESS = re.compile(rf"reinterpret_cast<\s*void\s*\*\s*>\s*\(\s*(?P<kernel>(?P<name>{NAME})(?:\s*<[^<>;()]*>)?)\s*\)")


def blank(text: str) -> str:
    """The text with comments and strings replaced by spaces: the same length and lines."""
    return COMMENT_OR_STRING.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def last_name(qualified: str) -> str:
    return re.sub(r"\s", "", qualified).split("::")[-1]


def closing(text: str, opening: int) -> int:
    """Where the parenthesis that opens at `opening` closes."""
    depth = 0
    for index in range(opening, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise ValueError(f"unbalanced parentheses at offset {opening}")


def split_arguments(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for index, char in enumerate(text):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [part.strip() for part in [*parts, text[start:]]]


class Rewriter:
    def __init__(self, texts: list[str]) -> None:
        found = [match for text in texts for match in KERNEL.finditer(blank(text))]
        self.kernels = {match["name"] for match in found}
        self.templates = {match["name"] for match in found if match["template"]}

    def callee(self, kernel: str) -> str:
        deduced = "<" not in kernel and last_name(kernel) in self.templates
        return f"HIP_TESTS_DEDUCED({kernel})" if deduced else kernel

    def launches(self, text: str) -> str:
        while match := LAUNCH.search(blank(text)):
            end = closing(blank(text), match.end() - 1)
            config = split_arguments(text[match.start("config") : match.end("config")])
            config += ["0", "nullptr"][len(config) - 2 :]
            arguments = text[match.end() : end].strip()
            call = ", ".join([self.callee(match["kernel"]), *config, *([arguments] if arguments else [])])
            replaced = text[match.start() : end + 1]
            lines = "\n" * (replaced.count("\n") - call.count("\n"))  # later line numbers stay what they were
            text = f"{text[: match.start()]}hipLaunchKernelGGL({call}{lines}){text[end + 1 :]}"
        return text

    def launch_macros(self, text: str) -> str:
        for match in reversed(list(LAUNCH_MACRO.finditer(blank(text)))):
            group = "wrapped" if match["wrapped"] else "plain"
            text = text[: match.start(group)] + self.callee(match[group]) + text[match.end(group) :]
        return text

    def addresses(self, text: str) -> str:
        for match in reversed(list(ADDRESS.finditer(blank(text)))):
            if last_name(match["name"]) in self.kernels:
                call = f"::hiphost::kernel({text[match.start('kernel') : match.end('kernel')]})"
                text = text[: match.start()] + call + text[match.end() :]
        return text

    def rewrite(self, text: str) -> str:
        return self.addresses(self.launches(self.launch_macros(text)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="the folder catch/ of a checkout")
    parser.add_argument("target", type=Path)
    parser.add_argument("folders", nargs="+", help="what to copy, relative to both")
    arguments = parser.parse_args()

    paths = [
        path
        for folder in arguments.folders
        for path in sorted((arguments.source / folder).rglob("*"))
        if path.is_file() and path.suffix in SUFFIXES
    ]
    texts = {path.relative_to(arguments.source): path.read_text(errors="replace") for path in paths}
    rewriter = Rewriter(list(texts.values()))
    for path, text in texts.items():
        changed = rewriter.rewrite(text)
        target = arguments.target / path
        if target.is_file() and target.read_text() == changed:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(changed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
