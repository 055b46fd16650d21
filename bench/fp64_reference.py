"""Attention's gradients in fp64 with torch, straight from the formulas, on tensors [seqlen, nhead, hdim]."""
from __future__ import annotations

BYTES_OF_ONE_MATRIX = 2 << 30


def visible(seqlen: int, window: tuple[int, int], device):
    """[seqlen, seqlen], whether query row i sees key j; None when every row sees every key."""
    import torch

    left, right = window
    if left < 0 and right < 0:
        return None
    distance = torch.arange(seqlen, device=device)[None, :] - torch.arange(seqlen, device=device)[:, None]
    seen = torch.ones_like(distance, dtype=torch.bool)
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    return seen


def gradients_of_sequence(q, k, v, dout, scale: float, window: tuple[int, int]):
    """dq, dk, dv in fp64 from inputs in any type; heads in pieces, so that no matrix exceeds BYTES_OF_ONE_MATRIX."""
    import torch

    seqlen, nhead_q, _ = q.shape
    ratio = nhead_q // k.shape[1]
    piece = max(1, BYTES_OF_ONE_MATRIX // (8 * seqlen * seqlen * ratio))
    seen = visible(seqlen, window, q.device)
    dq = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    dk = torch.empty(k.shape, dtype=torch.float64, device=q.device)
    dv = torch.empty(v.shape, dtype=torch.float64, device=q.device)
    for first in range(0, k.shape[1], piece):
        keys = slice(first, first + piece)
        queries = slice(first * ratio, (first + piece) * ratio)

        def heads_first(tensor, heads, repeats=1):
            return tensor[:, heads].double().transpose(0, 1).repeat_interleave(repeats, 0)

        qh, doh = heads_first(q, queries), heads_first(dout, queries)
        kh, vh = heads_first(k, keys, ratio), heads_first(v, keys, ratio)
        p = torch.matmul(qh, kh.transpose(1, 2)).mul_(scale)
        if seen is not None:
            p.masked_fill_(~seen, float("-inf"))
        p = torch.softmax(p, -1)
        ds = torch.matmul(doh, vh.transpose(1, 2))
        d = (torch.matmul(p, vh) * doh).sum(-1, keepdim=True)
        ds.sub_(d).mul_(p)

        def summed(tensor):
            return tensor.unflatten(0, (-1, ratio)).sum(1).transpose(0, 1)

        dv[:, keys] = summed(torch.matmul(p.transpose(1, 2), doh))
        del p
        dq[:, queries] = torch.matmul(ds, kh).mul_(scale).transpose(0, 1)
        dk[:, keys] = summed(torch.matmul(ds.transpose(1, 2), qh).mul_(scale))
    return dq, dk, dv


def worst_error(results, q, k, v, dout, lengths, scale: float, window: tuple[int, int]) -> dict[str, float]:
    """For each named (dq, dk, dv), packed [tokens, nhead, hdim] like the inputs, the largest of the three
    ||g - ref|| / ||ref|| over all sequences; a NaN stays one."""
    import torch

    differences = {name: [0.0, 0.0, 0.0] for name in results}
    norms = [0.0, 0.0, 0.0]
    start = 0
    for length in lengths:
        rows = slice(start, start + length)
        start += length
        expected = gradients_of_sequence(q[rows], k[rows], v[rows], dout[rows], scale, window)
        for i, reference in enumerate(expected):
            norms[i] = norms[i] + reference.square().sum()
            for name, gradients in results.items():
                differences[name][i] = differences[name][i] + (gradients[i][rows].double() - reference).square().sum()
    return {name: torch.stack([(square / norm).sqrt() for square, norm in zip(squares, norms)]).max().item()
            for name, squares in differences.items()}
