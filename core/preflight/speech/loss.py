"""The loss of a guess: how far it points away from the teacher's token."""

from __future__ import annotations

from torch import Tensor, nn

EPSILON = 1e-6


def token_loss(prediction: Tensor, target: Tensor) -> Tensor:
    """2 - 2 cos, averaged over tokens: 0 (the same direction) to 4. Both (..., features), float32.

    The target is brought to mean 0 and spread 1 over its features; by the cosine only the mean's
    going acts.
    """
    prediction, target = prediction.float(), target.float()
    mean = target.mean(dim=-1, keepdim=True)
    spread = (target.var(dim=-1, keepdim=True) + EPSILON).sqrt()
    alike = nn.functional.cosine_similarity(prediction, (target - mean) / spread, dim=-1)
    return (2.0 - 2.0 * alike).mean()
