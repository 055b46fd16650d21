"""The shapes that bench/compare_torch.py measures."""
from __future__ import annotations

import random
from dataclasses import dataclass

LENGTHS_SEED = 20261129


@dataclass(frozen=True)
class Row:
    """One problem; with `lengths` packed sequences, else `batch` of `seqlen`. window is (left, right), -1 unbounded."""

    suite: str
    hdim: int
    nhead_q: int
    nhead_k: int
    batch: int = 0
    seqlen: int = 0
    lengths: tuple[int, ...] = ()
    window: tuple[int, int] = (-1, -1)
    is_deterministic: bool = False
    capacity_factor: int = 1  # rows of the tensors over tokens
    dtype: str = "bf16"

    def is_causal(self) -> bool:
        return self.window == (-1, 0)

    def sequences(self) -> tuple[int, ...]:
        return self.lengths or (self.seqlen,) * self.batch

    def tokens(self) -> int:
        return sum(self.sequences())

    def longest(self) -> int:
        return max(self.sequences())

    def capacity(self) -> int:
        return self.tokens() * self.capacity_factor

    def name(self) -> str:
        heads = f"{self.nhead_q}" if self.nhead_q == self.nhead_k else f"{self.nhead_q}/{self.nhead_k}"
        if self.lengths:
            size = f"{len(self.lengths)} seqs <= {self.longest()}, {self.tokens()} tokens"
        else:
            size = f"{self.batch} x {self.seqlen}"
        mask = "" if self.window == (-1, -1) else " causal" if self.is_causal() else f" window {self.window[0]},{self.window[1]}"
        extra = " deterministic" if self.is_deterministic else ""
        extra += f" capacity x{self.capacity_factor}" if self.capacity_factor > 1 else ""
        return f"{self.suite}: hdim {self.hdim}, {heads} heads, {size}{mask}{extra}"

    def visible_pairs(self) -> float:
        """Query-key pairs of one head, counted as DESIGN.md section 8 does: a causal mask halves them."""
        if self.is_causal():
            return sum(length * length for length in self.sequences()) / 2
        left, right = self.window
        pairs = 0
        for length in self.sequences():
            for i in range(length):
                first = max(0, i - left) if left >= 0 else 0
                last = min(length - 1, i + right) if right >= 0 else length - 1
                pairs += max(0, last - first + 1)
        return float(pairs)

    def flops(self) -> float:
        """2.5 times the forward's 4 * pairs * nhead * hdim."""
        return 2.5 * 4 * self.visible_pairs() * self.nhead_q * self.hdim


def skewed_lengths(count: int, longest: int, tokens: int) -> tuple[int, ...]:
    """`count` lengths, many short and few long, that add up to `tokens`; the longest is `longest`."""
    generator = random.Random(LENGTHS_SEED)
    weights = [generator.lognormvariate(0.0, 1.0) for _ in range(count - 1)]
    left = tokens - longest
    lengths = [max(1, min(longest, int(left * weight / sum(weights)))) for weight in weights]
    step = 1 if sum(lengths) < left else -1
    while sum(lengths) != left:
        i = generator.randrange(len(lengths))
        lengths[i] = max(1, min(longest, lengths[i] + step))
    lengths.append(longest)
    generator.shuffle(lengths)
    return tuple(lengths)


def even_lengths(count: int, shortest: int, longest: int, tokens: int) -> tuple[int, ...]:
    """`count` lengths spread evenly between both bounds, moved one by one until they add up to `tokens`."""
    generator = random.Random(LENGTHS_SEED)
    lengths = [generator.randint(shortest, longest) for _ in range(count)]
    step = 1 if sum(lengths) < tokens else -1
    while sum(lengths) != tokens:
        i = generator.randrange(count)
        lengths[i] = max(shortest, min(longest, lengths[i] + step))
    return tuple(lengths)


CAUSAL = (-1, 0)
NO_MASK = (-1, -1)


def dense_rows() -> list[Row]:
    tokens, width = 16384, 2048
    rows = [Row("dense", hdim, width // hdim, width // hdim, tokens // seqlen, seqlen, window=window)
            for hdim in (64, 128) for window in (NO_MASK, CAUSAL) for seqlen in (512, 2048, 4096, 8192, 16384)]
    return rows


def shape_rows() -> list[Row]:
    """PEERS.md's "more shapes", and a sliding window."""
    shapes = [(256, 8, 8, 4096, 4, NO_MASK), (256, 8, 8, 4096, 4, CAUSAL), (256, 8, 8, 16384, 1, NO_MASK),
              (128, 64, 8, 4096, 1, NO_MASK), (128, 64, 8, 4096, 1, CAUSAL), (128, 64, 8, 16384, 1, NO_MASK),
              (96, 16, 16, 4096, 4, NO_MASK), (64, 32, 32, 128, 128, NO_MASK), (128, 16, 16, 128, 128, NO_MASK),
              (128, 48, 48, 128, 4, NO_MASK), (128, 48, 48, 256, 4, NO_MASK), (128, 48, 48, 512, 4, NO_MASK),
              (64, 32, 32, 8192, 2, (1024, 0)), (128, 16, 16, 8192, 2, (1024, 0))]
    return [Row("shapes", hdim, q, k, batch, seqlen, window=window) for hdim, q, k, seqlen, batch, window in shapes]


def varlen_rows() -> list[Row]:
    sets = ((8, 512, 1507), (16, 1024, 8886), (32, 2048, 25567), (16, 8192, 48197))
    rows = [Row("varlen", 128, 16, 16, lengths=skewed_lengths(*one), window=CAUSAL) for one in sets]
    return rows + [Row("varlen", 128, 16, 16, lengths=skewed_lengths(*one), window=CAUSAL, capacity_factor=4)
                   for one in sets]


def short_rows() -> list[Row]:
    rows = [(64, 19129, False), (64, 19129, True), (128, 17712, False), (128, 17712, True)]
    return [Row("short", hdim, 16, 16, lengths=even_lengths(256, 16, 128, tokens), window=CAUSAL,
                is_deterministic=is_deterministic) for hdim, tokens, is_deterministic in rows]


def prepare_rows() -> list[Row]:
    """32 packed sequences, 33 starts, with kernels of growing length."""
    sets = ((64, 1, 512, 3000), (64, 8, 1024, 12000), (128, 8, 2048, 25567))
    return [Row("prepare", hdim, nhead, nhead, lengths=skewed_lengths(32, longest, tokens), window=CAUSAL)
            for hdim, nhead, longest, tokens in sets]


SUITES = {"dense": lambda: dense_rows() + shape_rows(), "varlen": varlen_rows, "short": short_rows,
          "prepare": prepare_rows}
