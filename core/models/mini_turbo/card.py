"""The measured figures of a folder of weights, and the card that quotes them. Needs no torch."""

from __future__ import annotations

from pathlib import Path

import msgspec

FILE = "figures.json"  # in the folder of the weights
CARD = "MODEL_CARD.md"
TEMPLATE = Path(__file__).with_name("MODEL_CARD.template.md")


class Obeyed(msgspec.Struct, frozen=True):
    """Shares of pictures that show what was asked for, by the judge; 0 to 1."""

    all_three: float  # thing, its colour and the background's
    thing: float
    clothes: float
    digits: float
    colour: float
    background: float
    size: float


class Figures(msgspec.Struct, frozen=True):
    """What `evaluate` has measured; None: not measured this time."""

    made_on: str  # ISO date
    device: str
    prompts: int  # random ones, both languages, half of them digits
    parameters: int  # of text encoder, U-Net and VAE
    weights_mb: float  # of the whole folder, judge and teacher included
    one_step: Obeyed
    by_language: dict[str, float]  # all three
    held_out: Obeyed  # combinations of thing and colours that were never shown in training
    more_steps: dict[str, float]  # all three, by number of steps
    teacher: float | None  # all three, 20 steps, guidance 2
    real: Obeyed | None  # the judge on real pictures that it has never seen
    fid_pictures: int | None
    fid_like: float | None  # distance to unseen real pictures, in the judge's features
    fid_like_real: float | None  # the same of real training pictures
    spread: float | None  # mean distance between pictures of one prompt, features
    spread_real: float | None
    nearest_training: float | None  # mean distance to the nearest training picture
    nearest_training_of_real: float | None  # the same of unseen real pictures
    twins: float  # difference between the English and the Vietnamese sentence, same seed, 0 to 1
    strangers: float  # between two seeds
    seconds_a_picture: float  # one at a time, on `device`


def read_figures(folder: Path) -> Figures | None:
    """The figures beside some weights; None where nobody has measured them."""
    file = folder / FILE
    return msgspec.json.decode(file.read_bytes(), type=Figures) if file.is_file() else None


def write_figures(figures: Figures, folder: Path) -> None:
    """The figures, and the card with the figures in it."""
    told = msgspec.json.format(msgspec.json.encode(figures), indent=2)
    (folder / FILE).write_bytes(told + b"\n")
    (folder / CARD).write_text(card(figures), "utf-8")


def card(figures: Figures) -> str:
    return TEMPLATE.read_text("utf-8").format_map(
        {
            "made_on": figures.made_on,
            "device": figures.device,
            "prompts": f"{figures.prompts:,}",
            "parameters": f"{figures.parameters / 1e6:.1f}",
            "weights_mb": f"{figures.weights_mb:.1f}",
            "table": _table(figures),
            "languages": ", ".join(f"{k} {_percent(v)}" for k, v in figures.by_language.items()),
            "steps": ", ".join(f"{k} steps {_percent(v)}" for k, v in figures.more_steps.items())
            or "not measured",
            "fid_pictures": _number(figures.fid_pictures, ",d"),
            "fid_like": _number(figures.fid_like),
            "fid_like_real": _number(figures.fid_like_real),
            "spread": _number(figures.spread),
            "spread_real": _number(figures.spread_real),
            "nearest": _number(figures.nearest_training),
            "nearest_real": _number(figures.nearest_training_of_real),
            "twins": f"{figures.twins:.3f}",
            "strangers": f"{figures.strangers:.3f}",
            "seconds": f"{figures.seconds_a_picture:.3f}",
        }
    )


def _table(figures: Figures) -> str:
    rows = [
        ("one step", figures.one_step),
        ("one step, combinations never trained on", figures.held_out),
        *([("real unseen pictures", figures.real)] if figures.real else []),
    ]
    lines = [
        f"| {name} | "
        + " | ".join(
            _percent(share)
            for share in (o.all_three, o.thing, o.clothes, o.digits, o.colour, o.background, o.size)
        )
        + " |"
        for name, o in rows
    ]
    if figures.teacher is not None:
        lines.append(f"| teacher, 20 steps | {_percent(figures.teacher)} | | | | | | |")
    return "\n".join(lines)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _number(value: float | None, how: str = ".2f") -> str:
    return "not measured" if value is None else format(value, how)
