"""The two suites: which gates they have, in which order. Declared without torch."""

from __future__ import annotations

from core.preflight.gate import Gate, Need, Suite

_CLASSROOM = "core.preflight.classroom"
_SPEECH = "core.preflight.speech"

CLASSROOM = Suite(
    id="classroom",
    bench=f"{_CLASSROOM}.bench:ClassroomBench",
    gates=(
        Gate("packages", f"{_CLASSROOM}.system:packages", 5),
        Gate("device", f"{_CLASSROOM}.system:device", 10),
        Gate("meter", f"{_CLASSROOM}.system:meter", 10),
        Gate("space", f"{_CLASSROOM}.system:space", 5),
        Gate("digits", f"{_CLASSROOM}.data:digits", 15),
        Gate("models", f"{_CLASSROOM}.data:models", 20),
        Gate("prompts", f"{_CLASSROOM}.data:prompts", 5),
        Gate("step", f"{_CLASSROOM}.training:step", 15),
        Gate("restore", f"{_CLASSROOM}.training:restore", 15),
        Gate("seed", f"{_CLASSROOM}.training:seed", 15),
        Gate("throughput", f"{_CLASSROOM}.training:throughput", 60),
        Gate("web", f"{_CLASSROOM}.serving:web", 10),
        Gate("database", f"{_CLASSROOM}.serving:database", 5),
    ),
)

SPEECH = Suite(
    id="speech",
    bench=f"{_SPEECH}.bench:SpeechBench",
    gates=(
        Gate("G1", f"{_SPEECH}.gates_model:geometry", 15),
        Gate("G2", f"{_SPEECH}.gates_model:learning_rate", 5),
        Gate("G3", f"{_SPEECH}.gates_data:mel_and_masks", 15, (Need.SPEECH,)),
        Gate("G4", f"{_SPEECH}.gates_data:baseline", 40, (Need.SPEECH, Need.WEIGHTS)),
        Gate("G4b", f"{_SPEECH}.gates_data:anisotropy", 40, (Need.SPEECH, Need.WEIGHTS)),
        Gate("G5", f"{_SPEECH}.gates_run:one_step", 40, (Need.SPEECH,)),
        Gate("G5b", f"{_SPEECH}.gates_run:mixed_precision", 60, (Need.SPEECH,)),
        Gate("G6", f"{_SPEECH}.gates_run:checkpoint_restores", 60),
        Gate("G7", f"{_SPEECH}.gates_model:detection_branch", 15),
    ),
)

SUITES = {suite.id: suite for suite in (CLASSROOM, SPEECH)}
