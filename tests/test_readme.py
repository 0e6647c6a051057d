"""The README's settings table says what core/settings.py says; its links lead somewhere."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from core.settings import PREFIX, LabSettings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LINKS = re.findall(r"\]\(([^)#:]+)\)", README)


def row(name: str, default: object, help: str) -> str:
    match default:
        case None:
            shown = "none"
        case "":
            shown = "empty"
        case bool():
            shown = str(default).lower()
        case float():
            shown = f"{default:g}"
        case _:
            shown = str(default)
    return f"| `{PREFIX}{name.upper()}` | {shown} | {help} |"


def test_the_settings_table_lists_every_setting_as_the_code_has_it():
    table = [line for line in README.splitlines() if line.startswith(f"| `{PREFIX}")]
    settings = fields(LabSettings)
    assert table == [row(s.name, s.default, s.metadata["help"]) for s in settings]


@pytest.mark.parametrize("target", LINKS)
def test_a_link_leads_to_a_file_of_the_repository(target):
    assert (ROOT / target).exists()
