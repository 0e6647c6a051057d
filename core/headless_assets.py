"""`python -m core assets`: what the lab can use beyond its own code, and fetching it."""

from __future__ import annotations

import sys

from core.headless import FAILED, FINISHED, INTERRUPTED
from core.models.assets import MIB, Asset, FetchProgress, assets, fetch, read_record, state_of
from core.models.classifier_files import classifiers_here, weights_file
from core.models.download import FetchFailed
from core.models.image_models import default_image_model
from core.problems import Problem
from core.settings import LabSettings
from core.texts import Texts

EVERY = 10  # percent between two lines, where the reader is not a terminal


def asset_text(asset: Asset, say: Texts) -> str:
    """One model: what for, whether it is here, how large, where, its licence, how to get it."""
    state = state_of(asset)
    lines = [
        f"{asset.id}: {say(f'asset.use.{asset.id}')}",
        say("cli.asset.state", state=f"asset.state.{state}", size=_size(asset, say)),
        say("cli.asset.licence", licence=asset.licence.name, page=asset.licence.page),
        say("cli.asset.page", page=asset.page),
    ]
    if asset.folder is not None:
        lines.insert(2, say("cli.asset.place", place=str(asset.folder)))
        record = read_record(asset.folder)
        if record is not None:
            origins = sorted({file.origin for file in record.files.values()})
            proof = ", ".join(say(f"asset.proof.{origin}") for origin in origins)
            lines.insert(3, say("cli.asset.record", when=record.fetched_at, proof=proof))
    if say.has(f"asset.terms.{asset.id}"):
        lines.append(say(f"asset.terms.{asset.id}"))
    if asset.files:
        option = " --accept-licence" if asset.licence.accept else ""
        lines.append(f"python -m core assets fetch {asset.id}{option}")
    return "\n  ".join(lines)


def _size(asset: Asset, say: Texts) -> str:
    small = asset.mib < 10  # half a MiB would read 0 as the size of a memory does
    return say("unit.mib", value=say.number(asset.mib)) if small else say.mib(asset.mib)


def models_text(settings: LabSettings, say: Texts) -> str:
    """Which models are in use, and then all that there are."""
    drawing = default_image_model(settings)
    classifying = next(iter(classifiers_here(settings)), None)
    in_use = (
        say("cli.asset.no_image_model" if drawing is None else "cli.asset.draws", model=drawing),
        say("cli.asset.no_classifier")
        if classifying is None
        else say(
            "cli.asset.classifies",
            model=classifying,
            place=str(weights_file(classifying, settings)),
        ),
    )
    everything = (asset_text(asset, say) for asset in assets(settings).values())
    return "\n\n".join(("\n".join(in_use), *everything))


def fetch_asset(name: str, *, accepted: bool, settings: LabSettings, say: Texts) -> int:
    """Fetch one asset and tell how it goes; returns the exit code. Raises Problem for bad input."""
    everything = assets(settings)
    if not name:
        raise Problem("problem.asset_unnamed", near=", ".join(everything))
    if name not in everything:
        raise Problem("problem.asset_unknown", asset=name, near=", ".join(everything))
    asset = everything[name]
    line = ProgressLine(say)
    try:
        fetch(
            asset,
            settings,
            accepted=accepted,
            on_progress=line.show,
            on_notice=lambda notice: line.tell(say.notice(notice)),
        )
    except FetchFailed as failed:
        line.tell(say.notice(failed.notice))
        return FAILED
    except KeyboardInterrupt:
        line.tell(say("cli.asset.stopped"))
        return INTERRUPTED
    line.clear()
    print(say("cli.asset.fetched", asset=asset.id, place=str(asset.folder)))
    return FINISHED


class ProgressLine:
    """How far a fetch is, on standard error: one line redrawn, or one for every tenth of it."""

    def __init__(self, say: Texts) -> None:
        self._say = say
        self._live = sys.stderr.isatty()
        self._told = -1

    def show(self, progress: FetchProgress) -> None:
        percent = 100 * progress.done // max(progress.total, 1)
        if not self._live and percent // EVERY == self._told:
            return
        self._told = percent // EVERY
        words = [
            self._say.percent(percent),
            self._say("cli.asset.so_far", done=progress.done / MIB, total=progress.total / MIB),
        ]
        if progress.seconds_left is not None:
            words.append(self._say("cli.left", left=progress.seconds_left))
        self.clear()
        end = "" if self._live else "\n"
        print(" · ".join((*words, progress.file)), end=end, file=sys.stderr, flush=True)

    def tell(self, sentence: str) -> None:
        self.clear()
        print(sentence, file=sys.stderr)

    def clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
