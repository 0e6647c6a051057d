"""The predictor: guesses the hidden tokens from those that the student has seen.

After Tuncay, "Audio-JEPA" (2025), put together from timm's blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from timm.models.vision_transformer import Block
from torch import Tensor, nn

from core.preflight.speech import positions
from core.preflight.speech.encoder import gathered

WIDTH, DEPTH, HEADS = 384, 6, 12
OUTER = 768  # width of the encoder
MASK_STD = 0.02


class Predictor(nn.Module):
    """Narrower than the encoder; all but `mask_token` starts as PyTorch starts its layers.

    Names, shapes and order of its 80 tensors are those of the released weights.
    """

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

    def forward(
        self,
        seen: Tensor,
        context: Tensor | Sequence[Tensor],
        targets: Tensor | Sequence[Tensor],
    ) -> Tensor:
        """What the student made of the tokens at `context` (B, k), as (B, k, outer), and the places
        `targets` (B, t) to guess -> (B, t, outer).

        Of M contexts, `seen` has M * B rows, mask after mask; with T targets the answer has
        T * M * B: block j * M + m is target j guessed from context m. The public training step is
        consistent for M = 1 alone.
        """
        contexts = [context] if isinstance(context, Tensor) else context
        wanted = [targets] if isinstance(targets, Tensor) else targets
        known = self.predictor_embed(seen) + torch.cat([self._places(mask) for mask in contexts])
        asked = torch.cat(
            [self.mask_token + self._places(mask) for mask in wanted for _ in contexts]
        )  # (T * M * B, t, width)
        tokens = torch.cat((known.repeat(len(wanted), 1, 1), asked.to(known.dtype)), dim=1)
        for block in self.predictor_blocks:
            tokens = block(tokens)
        guessed: Tensor = self.predictor_proj(self.predictor_norm(tokens)[:, known.shape[1] :])
        return guessed

    def _places(self, index: Tensor) -> Tensor:
        return gathered(self.predictor_pos_embed.expand(len(index), -1, -1), index)


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
