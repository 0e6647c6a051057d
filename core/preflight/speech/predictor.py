"""The predictor: guesses the hidden tokens from those that the student has seen."""

from __future__ import annotations

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from core.preflight.speech import positions

WIDTH, DEPTH, HEADS = 384, 6, 12
OUTER = 768  # width of the encoder
MASK_STD = 0.02


class Predictor(nn.Module):
    """Of the 80 tensors of the released weights, under their names."""

    def __init__(
        self, rows: int, columns: int, *, width: int, outer: int, depth: int, heads: int
    ) -> None:
        super().__init__()
        self.mask_token = nn.Parameter(torch.zeros(1, 1, width))
        self.predictor_pos_embed = nn.Parameter(
            positions.table(width, rows, columns), requires_grad=False
        )
        self.predictor_embed = nn.Linear(outer, width)
        self.predictor_blocks = nn.ModuleList(
            Block(width, heads, mlp_ratio=4, qkv_bias=True, norm_layer=nn.LayerNorm)
            for _ in range(depth)
        )
        self.predictor_norm = nn.LayerNorm(width)
        self.predictor_proj = nn.Linear(width, outer)
        nn.init.trunc_normal_(self.mask_token, std=MASK_STD)

    def forward(self, seen: Tensor, context: Tensor, targets: Tensor) -> Tensor:
        """Tokens (B, k, outer) and their places (B, k), places to guess (B, t) -> (B, t, outer).

        For one context and one target mask, the only number of masks that the public training
        step is consistent for.
        """
        tokens = self.predictor_embed(seen) + self._places(context)
        asked = self.mask_token + self._places(targets)
        tokens = torch.cat((tokens, asked.to(tokens.dtype)), dim=1)
        for block in self.predictor_blocks:
            tokens = block(tokens)
        guessed: Tensor = self.predictor_proj(self.predictor_norm(tokens)[:, context.shape[1] :])
        return guessed

    def _places(self, index: Tensor) -> Tensor:
        table = self.predictor_pos_embed.expand(len(index), -1, -1)
        return torch.gather(table, 1, index[..., None].expand(-1, -1, table.shape[-1]))


def build_predictor(
    rows: int = 32,
    columns: int = 4,
    *,
    seed: int | None = None,
    width: int = WIDTH,
    outer: int = OUTER,
    depth: int = DEPTH,
    heads: int = HEADS,
) -> Predictor:
    """A fresh predictor; with a seed always the same one."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return Predictor(rows, columns, width=width, outer=outer, depth=depth, heads=heads)
