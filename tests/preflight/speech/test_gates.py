"""Each speech gate on small networks: green as they are, red when the real thing is broken."""

import pytest
import torch

from core.activities.preflight import SpeechSettings
from core.context import Context, never
from core.preflight.gate import Colour, Figure, Judgement, Table
from core.preflight.speech import checkpoint, gates_data, gates_model, gates_run
from core.preflight.speech.bench import SpeechBench
from core.preflight.speech.traps import TRAPS
from core.preflight.speech.weights import NAMES, STUDENT, folder_of, load_weights
from core.problems import Problem
from core.settings import LabSettings
from core.telemetry.readings import Machine
from core.texts import LANGUAGES, texts


class Bench(SpeechBench):
    """Two narrow layers and four clips."""

    width, depth, heads = 64, 2, 1
    narrow, narrow_depth, narrow_heads = 32, 1, 1
    clips = 4


@pytest.fixture
def context(tmp_path):
    return Context(
        device="cpu",
        cpu_threads=1,
        machine=Machine(cpu="a processor", cores=1, ram_mib=1_000.0),
        meter=None,
        stopped=never,
        digits=None,
        lab=LabSettings(offline=True, cache_dir=tmp_path),
    )


@pytest.fixture
def bench(context):
    return Bench(SpeechSettings(), context)


def judged(work) -> Judgement:
    while True:
        try:
            next(work)
        except StopIteration as end:
            told_in_both_languages(end.value)
            return end.value


def told_in_both_languages(judgement: Judgement) -> None:
    """A missing word or fact is an error in tests."""
    for say in map(texts, LANGUAGES):
        assert say.notice(judgement.message)
        if judgement.hint is not None:
            assert say.notice(judgement.hint)
        for item in judgement.evidence:
            assert say(item.label if isinstance(item, Figure) else item.title)
            if isinstance(item, Table):
                assert all(map(say, item.columns))


def figure(judgement: Judgement, label: str):
    return next(item.value for item in judgement.evidence if getattr(item, "label", "") == label)


def test_g1_is_green_and_shows_the_silence_of_the_wrong_table(bench):
    judgement = judged(gates_model.geometry(bench))

    assert judgement.colour is Colour.GREEN
    assert figure(judgement, "speech.g1.silent") is True


def test_g1_is_red_when_the_old_table_is_kept(context):
    class Careless(Bench):
        def loaded(self, prefix):
            encoder, missing, unexpected = super().loaded(prefix)
            encoder.pos_embed.copy_(self.weights.tensors[f"{prefix}pos_embed"])
            return encoder, missing, unexpected

    with torch.no_grad():
        assert judged(gates_model.geometry(Careless(SpeechSettings(), context))).colour is (
            Colour.RED
        )


def test_g2_reads_the_rate_from_the_optimiser(bench, monkeypatch):
    judgement = judged(gates_model.learning_rate(bench))
    assert judgement.colour is Colour.GREEN
    assert figure(judgement, "speech.g2.above") == pytest.approx(63, abs=1)

    # A schedule that forgets to write: the optimiser keeps the rate of the configuration.
    monkeypatch.setattr(gates_model.Schedule, "_write", lambda self: None)
    assert judged(gates_model.learning_rate(bench)).colour is Colour.RED


def test_g3_is_green_and_red_when_clips_are_cut_too_short(bench, context):
    assert judged(gates_data.mel_and_masks(bench)).colour is Colour.GREEN

    class Short(Bench):
        def mel(self, clips, *args, **kwargs):
            return super().mel(clips[:, : clips.shape[1] // 2], *args, **kwargs)

    short = judged(gates_data.mel_and_masks(Short(SpeechSettings(), context)))
    assert short.colour is Colour.RED


def test_g4_and_g4b_judge_nothing_without_trained_weights_and_say_where_to_put_them(bench):
    for gate in (gates_data.baseline, gates_data.anisotropy):
        judgement = judged(gate(bench))
        assert judgement.colour is Colour.NOT_JUDGED
        assert str(folder_of(bench.context.lab)) in judgement.hint.facts["folder"]


def test_g4_is_red_when_every_clip_gives_the_same_answer(context):
    class Deaf(Bench):
        def mel(self, clips, *args, **kwargs):
            return torch.zeros_like(super().mel(clips, *args, **kwargs))

        def encoder(self, prefix=STUDENT):
            encoder = super().encoder(prefix)
            with torch.no_grad():
                encoder.pos_embed.zero_()
            return encoder

    assert judged(gates_data.baseline(Deaf(SpeechSettings(), context))).colour is Colour.RED


def put_weights(bench: Bench, **changed: torch.Tensor) -> None:
    """A file as the released one is, with other numbers in it."""
    folder = folder_of(bench.context.lab)
    folder.mkdir(parents=True)
    torch.save({"state_dict": bench.weights.tensors | changed}, folder / NAMES[1])


def test_with_weights_in_their_place_g4_judges_them_beside_an_untrained_network(bench, context):
    put_weights(bench)

    judgement = judged(gates_data.baseline(Bench(SpeechSettings(), context)))

    assert judgement.colour is Colour.AMBER, "these have learnt nothing, and it shows"
    assert judgement.message.key == "speech.g4.like_random"
    judgement = judged(gates_data.anisotropy(Bench(SpeechSettings(), context)))
    assert judgement.colour is Colour.GREEN


def test_weights_of_another_model_or_with_code_in_them_are_refused(bench):
    put_weights(bench, **{f"{STUDENT}norm.bias": torch.zeros(3)})
    with pytest.raises(Problem, match="weights_other"):
        load_weights(bench.context.lab, bench.expected())

    torch.save({"state_dict": {}, "trainer": print}, folder_of(bench.context.lab) / NAMES[1])
    with pytest.raises(Problem, match="weights_untrusted"):
        load_weights(bench.context.lab, bench.expected())


def test_g5_moves_a_weight_by_the_first_rate_and_names_the_cpu(bench):
    judgement = judged(gates_run.one_step(bench))

    assert judgement.colour is Colour.GREEN
    assert judgement.message.key == "speech.g5.cpu"
    assert figure(judgement, "speech.g5.moved") == pytest.approx(1e-6, rel=0.01)


def test_g5_is_red_when_no_gradient_reaches_the_encoder(context):
    class Frozen(Bench):
        def training(self, precision="fp32"):
            training = super().training(precision)
            training.student.get_parameter("blocks.0.mlp.fc1.weight").requires_grad_(False)
            return training

    assert judged(gates_run.one_step(Frozen(SpeechSettings(), context))).colour is Colour.RED


def test_g5b_compares_the_precisions_of_this_device_and_refuses_the_others(bench, context):
    judgement = judged(gates_run.mixed_precision(bench))
    assert judgement.colour is Colour.GREEN
    (table,) = (item for item in judgement.evidence if isinstance(item, Table))
    assert [row[0] for row in table.rows] == ["fp32", "bf16"]

    with pytest.raises(Problem, match="precision"):
        judged(gates_run.mixed_precision(Bench(SpeechSettings(precision="fp16"), context)))


def test_g5b_is_red_when_a_precision_gives_another_loss(context):
    class Lossy(Bench):
        def training(self, precision="fp32"):
            training = super().training(precision)
            if precision == "bf16":
                with torch.no_grad():
                    training.predictor.predictor_proj.weight.mul_(float("nan"))
            return training

    assert judged(gates_run.mixed_precision(Lossy(SpeechSettings(), context))).colour is Colour.RED


def test_g6_goes_on_as_if_nothing_had_been(bench, tmp_path):
    bench.settings = SpeechSettings(remote=str(tmp_path))

    judgement = judged(gates_run.checkpoint_restores(bench))

    assert judgement.colour in (Colour.GREEN, Colour.AMBER), "amber: a full disk"
    assert figure(judgement, "speech.g6.replay") == 0
    assert figure(judgement, "speech.g6.alone") is True


def test_g6_is_red_when_the_moments_are_lost_or_the_remote_folder_is_not_there(bench, monkeypatch):
    bench.settings = SpeechSettings(remote="/no/such/folder")
    assert judged(gates_run.checkpoint_restores(bench)).colour is Colour.RED

    whole = checkpoint.save
    bench.settings = SpeechSettings()
    monkeypatch.setattr(
        checkpoint,
        "save",
        lambda path, state: whole(path, state | {"schedule": {"step": 0}}),
    )
    judgement = judged(gates_run.checkpoint_restores(bench))
    assert judgement.colour is Colour.RED
    assert judgement.message.key == "speech.g6.red"


def test_g7_is_green_and_red_by_one_changed_weight(bench, context):
    assert judged(gates_model.detection_branch(bench)).colour is Colour.GREEN

    class Touched(Bench):
        def encoder(self, prefix=STUDENT):
            encoder = super().encoder(prefix)
            with torch.no_grad():
                encoder.get_parameter("norm.bias")[0] += 1e-7
            return encoder

    touched = judged(gates_model.detection_branch(Touched(SpeechSettings(), context)))
    assert touched.colour is Colour.RED


@pytest.mark.gpu
@pytest.mark.timeout(300)
def test_on_a_card_the_whole_suite_runs_with_the_published_sizes(context):
    from dataclasses import replace

    bench = SpeechBench(SpeechSettings(), replace(context, device="cuda:0"))
    colours = {gate.id: judged(entry_of(gate)(bench)).colour for gate in speech_gates()}

    assert Colour.RED not in colours.values()
    assert bench.batch == 32


def speech_gates():
    from core.preflight.suites import SPEECH

    return SPEECH.gates


def entry_of(gate):
    import importlib

    module, _, name = gate.entry.partition(":")
    return getattr(importlib.import_module(module), name)


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.id)
def test_each_trap_closes_before_the_readers_eyes(trap, context):
    from core.preflight.speech.trap_demos import SmallBench

    judgement = judged(entry_of(trap)(SmallBench(None, context)))

    assert judgement.colour is Colour.GREEN
    for say in map(texts, LANGUAGES):
        assert say(f"trap.{trap.id}.title")
        assert say(f"trap.{trap.id}.text")
