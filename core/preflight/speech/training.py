"""One training run in the small: student, teacher, predictor, optimiser, schedules, step by step.

The gates work on copies: nothing that a gate trained is what a real run starts from.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from core.preflight.speech import budget, ema, masks
from core.preflight.speech.encoder import Encoder
from core.preflight.speech.loss import token_loss
from core.preflight.speech.optimiser import Schedule, groups_of
from core.preflight.speech.predictor import Predictor

BETAS = (0.9, 0.95)
START_LR, FINAL_LR = 1e-6, 0.0
WEIGHT_DECAY = 1e-6
DTYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Plan:
    """What the long run will do."""

    ref_lr: float = 1e-4
    warm_up: int = 500  # steps
    ema: float = 0.999
    total: int = budget.STEPS


class Training:
    """A run at some step. All modules are its own: hand it copies."""

    def __init__(
        self,
        student: Encoder,
        teacher: Encoder,
        predictor: Predictor,
        plan: Plan,
        *,
        precision: str = "fp32",
    ) -> None:
        self.student, self.teacher, self.predictor = student, teacher, predictor
        self.plan = plan
        self.device = next(student.parameters()).device
        self._dtype = DTYPES[precision]
        self.optimiser = torch.optim.AdamW(groups_of(student, predictor), betas=BETAS)
        self.schedule = Schedule(
            self.optimiser,
            ref=plan.ref_lr,
            start=START_LR,
            final=FINAL_LR,
            warm_up=plan.warm_up,
            total=plan.total,
            weight_decay=WEIGHT_DECAY,
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=precision == "fp16")
        self.step = 0  # updates made; seeds the masks, so it is saved with the rest

    def loss(self, mels: Tensor) -> Tensor:
        """The loss of a batch (B, 1, rows, bins) with the masks of this step."""
        tokens = self.student.grid[0] * self.student.grid[1]
        context, targets, _ = masks.masks(self.step, len(mels), tokens)
        context, targets = context.to(self.device), targets.to(self.device)
        with self._autocast():
            with torch.no_grad():
                whole = self.teacher(mels)
                wanted = torch.gather(whole, 1, targets[..., None].expand(-1, -1, whole.shape[-1]))
            guessed = self.predictor(self.student(mels, context), context, targets)
        return token_loss(guessed.float(), wanted.float())

    def advance(self, mels: Tensor) -> float:
        """One update; gives the loss. Schedule and teacher move only where the weights did."""
        loss = self.loss(mels)
        self.optimiser.zero_grad(set_to_none=True)
        self.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        if self.scaler.get_scale() >= scale:  # it falls where an update was skipped
            self.schedule.advance()
            ema.update(self.teacher, self.student, self.plan.ema)
            self.step += 1
        return float(loss.detach())

    def _autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self._dtype)

    def parts(self) -> dict[str, nn.Module]:
        """Name in a checkpoint -> module."""
        return {"student": self.student, "teacher": self.teacher, "predictor": self.predictor}

    def state(self) -> dict[str, Any]:
        """Everything that a resumed run needs, as tensors and plain values."""
        cuda = self.device.type == "cuda"
        return {
            **{name: module.state_dict() for name, module in self.parts().items()},
            "optimiser": self.optimiser.state_dict(),
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict(),
            "step": self.step,
            "random": torch.get_rng_state(),
            "random_cuda": torch.cuda.get_rng_state(self.device) if cuda else None,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken. Raises ValueError where the optimiser's groups differ."""
        for name, module in self.parts().items():
            module.load_state_dict(state[name])
        self.optimiser.load_state_dict(state["optimiser"])
        self.schedule.load_state_dict(state["schedule"])
        self.scaler.load_state_dict(state["scaler"])
        self.step = int(state["step"])
        torch.set_rng_state(state["random"].cpu())
        if state["random_cuda"] is not None and self.device.type == "cuda":
            torch.cuda.set_rng_state(state["random_cuda"].cpu(), self.device)
