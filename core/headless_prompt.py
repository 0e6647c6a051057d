"""The prompt check without a browser: one sentence in, the verdict out."""

from __future__ import annotations

import sys

import msgspec

from core.headless import FAILED, FINISHED
from core.problems import Problem
from core.safety.prompts import check, load_rules
from core.settings import LabSettings
from core.texts import Texts


def tell_verdict(prompt: str, settings: LabSettings, say: Texts, *, as_json: bool) -> int:
    """Print the verdict and the rule that decided; 0 for "allow", 1 for "ask" and "refuse".

    Raises Problem for a sentence without a word.
    """
    prompt = prompt.encode(errors="replace").decode()  # a terminal may hand over broken bytes
    if not any(map(str.isalnum, prompt)):
        raise Problem("problem.prompt_missing")
    rules = load_rules(settings)
    if rules.notice is not None:
        print(say.notice(rules.notice), file=sys.stderr)
    verdict = check(prompt, rules)
    reason = None if verdict.notice is None else say.notice(verdict.notice)
    if as_json:
        line = {
            "event": "result",
            "prompt": prompt,
            **msgspec.to_builtins(verdict),
            "reason": reason,
        }
        print(msgspec.json.encode(line).decode())
    elif reason is None:
        print(say("safety.decision.allow"))
    else:
        print(
            say(
                "cli.verdict",
                decision=f"safety.decision.{verdict.decision}",
                kind=f"safety.kind.{verdict.kind}",
                rule=verdict.rule,
                matched=verdict.matched,
                step=f"safety.step.{verdict.step}",
            )
        )
        print(reason)
    return FINISHED if verdict.allowed else FAILED
