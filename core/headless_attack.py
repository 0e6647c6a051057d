"""The results of Part 4 as lines for a terminal."""

from __future__ import annotations

from core.activities import (
    AttackResult,
    AttackSweepResult,
    DefencesResult,
    Seen,
    TransferResult,
)
from core.activities.attack import Guess
from core.data.image_classes import label
from core.texts import Texts

AttackValues = AttackResult | AttackSweepResult | DefencesResult | TransferResult


def attack_text(say: Texts, values: AttackValues) -> list[str]:
    match values:
        case AttackResult():
            lines = _attack(say, values)
        case AttackSweepResult():
            lines = _sweep(say, values)
        case DefencesResult():
            lines = _defences(say, values)
        case TransferResult():
            lines = _transfer(say, values)
    return ["", *lines, say("cli.made_on", device=values.device_name)]


def _attack(say: Texts, values: AttackResult) -> list[str]:
    return [
        say("cli.attack.model", model=values.model),
        say("cli.attack.before"),
        *_guesses(say, values.before, values.before_classes),
        say("cli.attack.after"),
        *_guesses(say, values.after, values.after_classes),
        _verdict(say, values),
        say("cli.attack.size", linf=values.linf_255, l2=values.l2, time=values.milliseconds),
        _seen(say, "cli.attack.eight_bit", values.eight_bit),
        _seen(say, "cli.attack.png", values.png),
        _seen(say, "cli.attack.control", values.control),
    ]


def _guesses(say: Texts, guesses: tuple[Guess, ...], classes: tuple[int, ...]) -> list[str]:
    return [
        say("cli.guess", name=label(index, say.language), index=index, belief=100 * belief)
        for (_, belief), index in zip(guesses, classes, strict=True)
    ]


def _verdict(say: Texts, values: AttackResult) -> str:
    return say(
        "cli.attack.fooled" if values.fooled else "cli.attack.not_fooled",
        target=label(values.target, say.language),
        confidence=100 * values.confidence,
        steps=values.steps,
    )


def _seen(say: Texts, key: str, seen: Seen) -> str:
    return say(
        key,
        guess=label(seen.guess_class, say.language),
        confidence=100 * seen.confidence,
        linf=seen.linf_255,
    )


def _sweep(say: Texts, values: AttackSweepResult) -> list[str]:
    lines = [say("cli.attack.model", model=values.model)]
    for point in (*values.points, *values.map):
        key = "cli.sweep.fooled" if point.fooled else "cli.sweep.not_fooled"
        lines.append(
            say(
                key,
                target=label(point.target, say.language),
                epsilon=point.epsilon,
                confidence=100 * point.confidence,
            )
        )
    if values.weakest is None:
        lines.append(say("cli.sweep.none"))
    else:
        lines.append(say("cli.sweep.weakest", epsilon=values.weakest))
    return lines


def _defences(say: Texts, values: DefencesResult) -> list[str]:
    lines = [say("cli.attack.model", model=values.model)]
    for outcome in values.outcomes:
        lines.append(
            say(
                "cli.defence.survives" if outcome.survives else "cli.defence.stops",
                name=say(f"attack.defence.{outcome.name}"),
                guess=label(outcome.guess_class, say.language),
                confidence=100 * outcome.confidence,
                right=outcome.right,
                clean=outcome.clean,
            )
        )
        if outcome.name != "none":
            fell = outcome.adaptive_fooled
            lines.append(
                say(
                    "cli.defence.falls" if fell else "cli.defence.holds",
                    epsilon=outcome.adaptive_epsilon,
                    confidence=100 * outcome.adaptive_confidence,
                )
            )
    return lines


def _transfer(say: Texts, values: TransferResult) -> list[str]:
    return [
        say(
            "cli.transfer.fooled" if cell.fooled else "cli.transfer.not_fooled",
            made_for=" + ".join(cell.made_for),
            judged_by=cell.judged_by,
            guess=label(cell.guess_class, say.language),
            confidence=100 * cell.confidence,
        )
        for cell in values.cells
    ]
