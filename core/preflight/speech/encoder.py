"""The encoder: timm's vision transformer with the settings that make it Audio-JEPA's.

After Tuncay, "Audio-JEPA" (2025). Names, shapes and order of its 149 tensors are those of the
released weights, which timm's own loader must not touch: it would resize them in its own way.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from core.preflight.speech import positions
from core.preflight.speech.front_end import BINS, ROWS

WIDTH, DEPTH, HEADS = 768, 12, 12
PATCH = (8, 32)  # rows (time) and bins (frequency)
POSITIONS, PATCH_WEIGHT = "pos_embed", "patch_embed.proj.weight"


class Encoder(VisionTransformer):
    """Pictures of sound, (B, 1, 256, 128), to tokens, (B, 128, width).

    Token n stands at row n // columns (time) and column n % columns (frequency) of `grid`.
    """

    pos_embed: nn.Parameter

    def __init__(self, patch: tuple[int, int], width: int, depth: int, heads: int) -> None:
        super().__init__(
            img_size=(ROWS, BINS),
            patch_size=patch,
            in_chans=1,
            num_classes=0,
            global_pool="",
            class_token=False,
            embed_dim=width,
            depth=depth,
            num_heads=heads,
            qkv_bias=True,
            norm_layer=nn.LayerNorm,  # eps 1e-5; timm's own 1e-6 moves every output
            weight_init="skip",  # PyTorch's own, as the released training had it
        )
        self.grid = (ROWS // patch[0], BINS // patch[1])
        self.pos_embed = nn.Parameter(positions.table(width, *self.grid), requires_grad=False)

    def forward(  # type: ignore[override]
        self, x: Tensor, kept: Tensor | Sequence[Tensor] | None = None
    ) -> Tensor:
        """`kept` (B, k): indices of the tokens that are gathered before the first block, so that
        the others are never looked at. Of M such masks, the answers come mask after mask:
        (M * B, k, width)."""
        tokens = self.patch_embed(x) + self.pos_embed
        if kept is not None:
            masks = [kept] if isinstance(kept, Tensor) else kept
            tokens = torch.cat([gathered(tokens, mask) for mask in masks])
        answer: Tensor = self.norm(self.blocks(tokens))
        return answer


def gathered(tokens: Tensor, index: Tensor) -> Tensor:
    """Of (B, tokens, width), those at (B, k): (B, k, width)."""
    return torch.gather(tokens, 1, index[..., None].expand(-1, -1, tokens.shape[-1]))


def build_encoder(
    patch: tuple[int, int] = PATCH,
    seed: int | None = None,
    width: int = WIDTH,
    depth: int = DEPTH,
    heads: int = HEADS,
) -> Encoder:
    """A fresh encoder; with a seed always the same one, whatever else draws numbers."""
    with torch.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            torch.manual_seed(seed)
        return Encoder(patch, width, depth, heads)


def resized_patch(weight: Tensor, patch: tuple[int, int]) -> Tensor:
    """The kernel of the patch convolution for patches of another shape, bicubic, not rescaled."""
    return nn.functional.interpolate(
        weight, size=patch, mode="bicubic", align_corners=False, antialias=False
    )


def _own(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in tensors.items()
        if name.startswith(prefix)
    }


def from_checkpoint(
    tensors: Mapping[str, Tensor],
    prefix: str,
    patch: tuple[int, int] = PATCH,
    heads: int = HEADS,
) -> tuple[Encoder, list[str], list[str]]:
    """An encoder by the loading rule, and which names were missing and unexpected.

    The table of positions is never taken from the file: of another grid it may fit, and be wrong.
    """
    state = _own(tensors, prefix)
    if PATCH_WEIGHT not in state or "norm.weight" not in state:
        raise ValueError(f"no encoder stands under {prefix!r}")
    state.pop(POSITIONS, None)
    state[PATCH_WEIGHT] = resized_patch(state[PATCH_WEIGHT], patch)
    depth = 1 + max(int(name.split(".")[1]) for name in state if name.startswith("blocks."))
    encoder = Encoder(patch, int(state["norm.weight"].shape[0]), depth, heads)
    outcome: Any = encoder.load_state_dict(state, strict=False)
    return encoder, list(outcome.missing_keys), list(outcome.unexpected_keys)


def assembled(
    tensors: Mapping[str, Tensor],
    prefix: str,
    patch: tuple[int, int] = PATCH,
    grid: tuple[int, int] = (32, 4),
) -> dict[str, Tensor]:
    """The encoder's tensors put together a second way: what the loading has to come to.

    Without a module, and on purpose without the functions that load one: the rule stands here
    again, the table by its formula in plain Python. Who changes one of the two is found out.
    """
    state = _own(tensors, prefix)
    state[PATCH_WEIGHT] = nn.functional.interpolate(state[PATCH_WEIGHT], patch, mode="bicubic")
    quarter = state[POSITIONS].shape[-1] // 4
    frequencies = [10_000.0 ** (-k / quarter) for k in range(quarter)]
    table = [
        [
            wave(place * f)
            for place in (column, row)
            for wave in (math.sin, math.cos)
            for f in frequencies
        ]
        for row in range(grid[0])
        for column in range(grid[1])
    ]
    state[POSITIONS] = torch.tensor([table], dtype=torch.float32)  # rounded once, from float64
    return state


def fingerprint(state: Mapping[str, Tensor]) -> str:
    """SHA-256 over name, type, shape and bytes of every tensor, in the order of their names."""
    print_ = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        print_.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        print_.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return print_.hexdigest()
