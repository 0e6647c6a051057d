"""Vega-Lite specs as SVG, drawn by a process of its own: `python -m core.report.svg`.

The drawing library brings a whole JavaScript engine: 1.6 s for the first chart, 0.1 to 0.2 s for
each further one, 65 MiB of memory, and no other thread runs meanwhile (measured on 2 cores,
vl-convert 1.9). In the server that would stop every student's page; here it is gone afterwards.
Specs go in and pictures come out as one JSON list; nothing is fetched.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from core.settings import PREFIX

ROOT = Path(__file__).parents[2]  # the folder that holds core/
SECONDS = 90  # no drawing takes that long
WIDTH = 620  # of a chart's bars, pixels
FONT = "Helvetica, Arial, sans-serif"

_NAMESPACES = re.compile(r' xmlns(?::xlink)?="[^"]*"')
_log = logging.getLogger(__name__)


def drawings(specs: list[dict[str, Any]]) -> list[str] | None:
    """One `<svg>` for each spec, to stand in an HTML file; None, with a line in the log, where
    charts cannot be drawn on this computer."""
    if not specs:
        return []
    try:
        answer = subprocess.run(
            [sys.executable, "-m", __name__],
            cwd=ROOT,
            env={name: text for name, text in os.environ.items() if not name.startswith(PREFIX)},
            input=msgspec.json.encode(specs),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
        return msgspec.json.decode(answer.stdout, type=list[str])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        told = getattr(error, "stderr", None) or b""
        _log.error("charts of a report are not drawn: %s %s", error, told.decode(errors="replace"))
        return None


def drawn(spec: dict[str, Any]) -> str:
    """One chart as SVG, on white, without names that an HTML file does not need."""
    import vl_convert

    whole = {**spec, "width": WIDTH}
    whole["config"] = {**spec.get("config", {}), "font": FONT, "background": "white"}
    svg = vl_convert.vegalite_to_svg(whole, allowed_base_urls=[])
    return _NAMESPACES.sub("", svg)


def main() -> None:
    specs = msgspec.json.decode(sys.stdin.buffer.read(), type=list[dict[str, Any]])
    sys.stdout.buffer.write(msgspec.json.encode([drawn(spec) for spec in specs]))


if __name__ == "__main__":
    main()
