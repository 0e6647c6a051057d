"""Train mini-turbo: `python -m core.models.mini_turbo.train STAGE --seconds N --out DIR`.

Stages, each after the ones before it: judge, checker, vae, teacher, student. Each writes its
weights to `--out` and finds those of the earlier stages there or in `--from`.

The longest may be cut in parts: `teacher --end 0.5`, and later `teacher --begin 0.5`. `student
--begin 0.3` improves a student that is there already.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch

from core.models.mini_turbo.pictures import Material, load_material
from core.models.mini_turbo.plumbing import Run, best_device, note
from core.models.mini_turbo.train_judge import train_judge
from core.models.mini_turbo.train_student import Distilling, train_student
from core.models.mini_turbo.train_teacher import train_teacher
from core.models.mini_turbo.train_vae import train_vae

STAGES = ("judge", "checker", "vae", "teacher", "student")


def train(stage: str, run: Run, material: Material | None, how: Distilling | None = None) -> None:
    """One stage. `material` is None only for a warm run of teacher or student."""
    started = time.perf_counter()
    # The checker is to be another network than the judge.
    torch.manual_seed(run.seed + 1 if stage == "checker" else run.seed)
    run.out.mkdir(parents=True, exist_ok=True)
    if stage == "teacher":
        train_teacher(run, material)
    elif stage == "student":
        train_student(run, material, how or Distilling())
    elif material is None:
        raise ValueError(f"the stage {stage!r} has nothing to compile ahead")
    elif stage in ("judge", "checker"):
        train_judge(run, material, stage)
    else:
        train_vae(run, material)
    note(f"{stage} is done", seconds=time.perf_counter() - started)


def main(arguments: list[str] | None = None) -> None:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # the captions' processes are enough
    given = _parser().parse_args(arguments)
    run = Run(
        out=given.out,
        given=given.given,
        seconds=given.seconds,
        steps=given.steps,
        batch=given.batch,
        begin=given.begin,
        end=given.end,
        bank=given.bank,
        seed=given.seed,
        compiled=given.compile,
        warm=given.warm,
        processes=given.processes,
        device=torch.device(given.device),
    )
    how = Distilling(
        most_steps=given.student_steps,
        pairs=given.pairs,
        pair_seconds=given.pair_seconds,
        guidance=given.guidance,
        steer=given.steer,
        imitate=given.imitate,
        relativistic=given.loss == "relativistic",
        noise=given.noise,
        rate=given.critic_rate,
        heads=given.heads,
        wrong=given.wrong,
        wrong_later=given.wrong_later,
    )
    if run.on_gpu:
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
    train(given.stage, run, None if run.warm else load_material(given.fashion), how)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    ask = parser.add_argument
    ask("stage", choices=STAGES)
    ask("--seconds", type=float, default=60, help="how long to train, preparations not counted")
    ask("--steps", type=int, help="train for so many steps instead")
    ask("--out", type=Path, required=True, help="folder for the weights")
    ask("--from", type=Path, dest="given", help="folder with weights of earlier stages")
    ask("--fashion", type=Path, help="folder with Fashion-MNIST's four .gz files")
    ask("--begin", type=float, default=0.0, help="part of the schedule to begin at; resumes")
    ask("--end", type=float, default=1.0, help="part of the schedule to end at")
    ask("--batch", type=int, help="samples in a step, if not the stage's own")
    ask("--bank", type=int, default=500_000, help="captions and latents")
    ask("--seed", type=int, default=0)
    ask("--processes", type=int, help="that write captions; all cores but one if not given")
    ask("--device", default=best_device().type, help="cpu or cuda; the GPU if there is one")
    ask("--compile", action="store_true", help="torch.compile for the U-Net: 1 minute, 1.6x")
    ask("--warm", action="store_true", help="only fill the compiler's cache, on made-up data")
    how = Distilling()
    ask("--student-steps", type=int, choices=(1, 4), default=1, help="most steps it is used with")
    ask("--pairs", type=int, default=how.pairs)
    ask("--pair-seconds", type=float, default=how.pair_seconds)
    ask("--guidance", type=float, default=how.guidance, help="of the teacher that draws pairs")
    ask("--steer", type=float, default=how.steer, help="weight of the checker, if there is one")
    ask("--imitate", type=float, default=how.imitate, help="share of time, no discriminator")
    ask("--loss", choices=("relativistic", "logistic"), default="relativistic")
    ask("--noise", type=int, default=how.noise, help="highest level the discriminator sees")
    ask("--critic-rate", type=float, default=how.rate)
    ask("--heads", type=float, default=how.heads, help="the heads' rate, times the critic's")
    ask("--wrong", type=float, default=how.wrong, help="weight of wrong sentences at first")
    ask("--wrong-later", type=float, default=how.wrong_later)
    return parser


if __name__ == "__main__":
    main()
