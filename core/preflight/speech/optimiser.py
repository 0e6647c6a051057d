"""Parameter groups, and the schedules that write into them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from core.preflight.speech.schedules import learning_rate, weight_decay

EXCLUDED = "without_decay"  # flag of a group


def groups_of(
    encoder: nn.Module, predictor: nn.Module, *, split: bool = False
) -> list[dict[str, Any]]:
    """The parameters of both, encoder first.

    One group of all, frozen tables included, as the long run keeps it; or `split`: four groups of
    what is trained, where biases and other 1-D parameters do not decay.
    """
    if not split:
        return [{"params": [*encoder.parameters(), *predictor.parameters()]}]
    trained = [
        [parameter for parameter in module.parameters() if parameter.requires_grad]
        for module in (encoder, predictor)
    ]
    return [
        {"params": [p for p in parameters if (p.ndim > 1) is matrices], EXCLUDED: not matrices}
        for matrices in (True, False)
        for parameters in trained
    ]


class Schedule:
    """Writes rate and decay into an optimiser's groups, at once and after each update.

    So the rate that the optimiser was made with is never used. As in the public code, the decay
    lags one step behind.
    """

    def __init__(
        self,
        optimiser: torch.optim.Optimizer,
        *,
        ref: float,
        start: float,
        final: float,
        warm_up: int,
        total: int,
        weight_decay: float,
        final_weight_decay: float | None = None,
    ) -> None:
        self._optimiser = optimiser
        self._ref, self._start, self._final = ref, start, final
        self._warm_up, self._total = warm_up, total
        self._decay = weight_decay
        self._final_decay = weight_decay if final_weight_decay is None else final_weight_decay
        self.step = 0
        self._write()

    def advance(self) -> None:
        """After an update of the weights, and only then."""
        self.step += 1
        self._write()

    def _write(self) -> None:
        rate = learning_rate(
            self.step,
            ref=self._ref,
            start=self._start,
            final=self._final,
            warm_up=self._warm_up,
            total=self._total,
        )
        decay = weight_decay(
            self.step - 1, ref=self._decay, final=self._final_decay, total=self._total
        )
        for group in self._optimiser.param_groups:
            group["lr"] = rate
            group["weight_decay"] = 0.0 if group.get(EXCLUDED) else decay

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.step = int(state["step"])
        self._write()
