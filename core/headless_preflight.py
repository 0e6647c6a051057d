"""`python -m core preflight`: one line a gate as it ends, and an exit code to rely on."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import msgspec

from core.activities import ACTIVITIES
from core.events import AnyEvent, Failed, Judged, Progressed, Result, Staged, Stopped
from core.headless import FAILED, FINISHED, Keeping, Run, Teller, run_activity
from core.preflight.export import gate_line, to_html
from core.preflight.gate import Colour, Outcome, PreflightResult
from core.preflight.terminal import end_text, gate_text
from core.problems import Notice
from core.settings import LabSettings
from core.texts import Texts


class GateTeller(Teller):
    """Remembers how the gates ended; what is said of each is for those below."""

    def __init__(self, say: Texts) -> None:
        super().__init__(say)
        self.outcomes: list[Outcome] = []
        self.result: PreflightResult | None = None  # when the suite has come to its end

    def event(self, run: Run, event: AnyEvent) -> None:
        match event:
            case Judged():
                self.outcomes.append(event.outcome)
                self.judged(event.outcome)
            case Result():
                self.result = msgspec.convert(event.values, PreflightResult)
                self.over(event)
            case Stopped() | Failed():
                self.over(event)
            case _:
                self.going_on(event)

    def judged(self, outcome: Outcome) -> None:
        raise NotImplementedError

    def over(self, event: Result | Stopped | Failed) -> None:
        pass

    def going_on(self, event: AnyEvent) -> None:
        pass


class JsonGates(GateTeller):
    """One JSON object a gate, one a line, as `outcome.schema.json` has it; and nothing else."""

    def __init__(self, say: Texts, out: BinaryIO) -> None:
        super().__init__(say)
        self._out = out

    def judged(self, outcome: Outcome) -> None:
        self._out.write(gate_line(outcome, self._say) + b"\n")
        self._out.flush()


class ScreenGates(GateTeller):
    """For a reader: light, id, title, time and message of each gate, and the whole at the end."""

    def __init__(self, say: Texts, out: TextIO) -> None:
        super().__init__(say)
        self._out = out
        self._live = sys.stderr.isatty()
        self._inked = out.isatty()
        self._place = ""

    def going_on(self, event: AnyEvent) -> None:
        match event:
            case Progressed():
                self._place = f"{min(event.done + 1, event.total)}/{event.total}"
            case Staged() if self._live:
                line = f"{self._place} {self._say(event.stage)}…"
                print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
            case _:
                pass

    def judged(self, outcome: Outcome) -> None:
        self._clear()
        print("\n".join(gate_text(outcome, self._say, inked=self._inked)), file=self._out)
        self._out.flush()

    def over(self, event: Result | Stopped | Failed) -> None:
        self._clear()
        match event:
            case Result() if self.result is not None:
                end = end_text(self.result.gates, self._say, suite=self.result.suite)
                print("\n".join(end), file=self._out)
            case Stopped():
                print(self._say("cli.stopped"), file=sys.stderr)
            case _:
                pass  # why it failed is for whoever holds the exit code

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def run_preflight(
    suite: str,
    values: dict[str, Any],
    say: Texts,
    *,
    device: str,
    as_json: bool,
    report: Path | None = None,
) -> int:
    """Run a suite to its end. Returns 0 only if no gate is red; `report` is an HTML file to write.

    Raises Problem for bad input, before anything runs.
    """
    activity = ACTIVITIES[f"preflight-{suite}"]
    settings = activity.settings.parse(values)
    Keeping(folder=None if report is None else report.parent).check()
    out = sys.stdout
    teller: GateTeller = JsonGates(say, out.buffer) if as_json else ScreenGates(say, out)
    # What a library prints inside a gate is for whoever watches, not for whoever reads the lines.
    with contextlib.redirect_stdout(sys.stderr):
        code = run_activity(
            activity, settings, LabSettings.load(), device=device, keeping=Keeping(), teller=teller
        )
    if teller.result is not None and report is not None:
        text = to_html(teller.result, (), msgspec.to_builtins(settings), say)
        try:
            report.write_text(text, "utf-8")
        except OSError as error:
            reason = error.strerror or str(error)
            teller.notice(
                Notice("problem.path_unwritable", {"path": str(report), "reason": reason})
            )
            return FAILED
    red = any(outcome.colour is Colour.RED for outcome in teller.outcomes)
    return FAILED if code == FINISHED and red else code
