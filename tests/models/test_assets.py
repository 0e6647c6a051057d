"""What the lab can use, and fetching it: from a real server, on good days and bad ones."""

import hashlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from core.__main__ import main
from core.models import download
from core.models.assets import (
    MIB,
    RECORD,
    RESNET_SHA256,
    SD_TURBO_FILES,
    TAESD_HOME,
    Licence,
    RemoteFile,
    State,
    assets,
    fetch,
    read_record,
    state_of,
)
from core.models.classifier_files import RESNET_FILE, weights_file
from core.models.download import FetchFailed, Origin, look_up
from core.models.image_models import INDEX, image_models
from core.models.stored_blocks import BLOCKS
from core.problems import Problem
from core.settings import LabSettings
from core.texts import LANGUAGES, texts
from tests.models.file_server import serving

ROOT = Path(__file__).parent.parent.parent
WEIGHTS = random.Random(0).randbytes(3 * MIB)
FILES = {"config.json": b'{"kind": "tiny"}', "large/weights.bin": WEIGHTS, INDEX: b"{}"}


@pytest.fixture
def server():
    with serving(dict(FILES)) as server:
        yield server


@pytest.fixture
def settings(tmp_path):
    return LabSettings(models_dir=tmp_path / "models", cache_dir=tmp_path / "cache")


@pytest.fixture
def asset(server, settings):
    """A model of three files with a licence of its own, as sd-turbo is one."""
    folder = settings.models / "tiny"
    files = tuple(RemoteFile(name, f"{server.address}/{name}") for name in FILES)
    real = assets(settings)["sd-turbo"]

    def whole(folder):
        return all((folder / name).is_file() for name in FILES)

    return replace(real, id="tiny", folder=folder, whole=whole, files=files)


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(download, "WAIT_SECONDS", 0.0)


def everything_is_there(asset):
    return all((asset.folder / name).read_bytes() == content for name, content in FILES.items())


def part_of(asset, name="large/weights.bin"):
    return asset.folder.with_name("tiny.part") / f"{name}.part"


class Teacher:
    """Watches a fetch, and stops it once so many bytes are there."""

    def __init__(self, stop_at=None):
        self.told, self.stop_at = [], stop_at

    def watch(self, progress):
        self.told.append(progress)

    def stopped(self):
        return self.stop_at is not None and any(p.done >= self.stop_at for p in self.told)


def test_a_fresh_fetch_brings_every_file_and_says_how_each_was_proven(asset, settings):
    assert state_of(asset) is State.MISSING
    teacher = Teacher()
    assert fetch(asset, settings, accepted=True, on_progress=teacher.watch)

    assert everything_is_there(asset)
    assert state_of(asset) is State.HERE
    record = read_record(asset.folder)
    assert record.accepted
    assert record.licence == asset.licence.name
    weights = record.files["large/weights.bin"]
    assert weights.checksum == hashlib.sha256(WEIGHTS).hexdigest()
    assert {file.origin for file in record.files.values()} == {Origin.SERVER}
    done = [progress.done for progress in teacher.told]
    assert done == sorted(done)
    assert done[-1] == teacher.told[-1].total == sum(map(len, FILES.values()))
    assert not asset.folder.with_name("tiny.part").exists()


def test_a_cut_is_mended_from_where_it_happened(asset, settings, server):
    server.cut_after = MIB
    assert fetch(asset, settings, accepted=True)

    assert everything_is_there(asset)
    first, second = server.bodies_of("weights.bin")
    assert first is None
    assert int(second.removeprefix("bytes=").removesuffix("-")) > 0


def test_a_stopped_fetch_is_continued_by_the_next_one(asset, settings, server):
    stopping = Teacher(stop_at=MIB)
    assert not fetch(
        asset, settings, accepted=True, on_progress=stopping.watch, stopped=stopping.stopped
    )
    have = part_of(asset).stat().st_size
    assert MIB <= have + len(FILES["config.json"]) < len(WEIGHTS)
    assert not asset.folder.exists(), "half a model is never seen"
    assert state_of(asset) is State.BEGUN

    teacher = Teacher()
    assert fetch(asset, settings, accepted=True, on_progress=teacher.watch)
    assert everything_is_there(asset)
    assert server.bodies_of("weights.bin")[1:] == [f"bytes={have}-"]
    assert server.bodies_of("config.json") == [None], "what was whole is not fetched twice"
    assert teacher.told[0].done > have


def test_a_server_that_knows_no_ranges_sends_the_file_again(asset, settings, server):
    part_of(asset).parent.mkdir(parents=True)
    part_of(asset).write_bytes(WEIGHTS[:MIB])
    server.ranges = False
    assert fetch(asset, settings, accepted=True)
    assert everything_is_there(asset)


def test_a_left_over_part_that_is_too_long_is_begun_again(asset, settings):
    part_of(asset).parent.mkdir(parents=True)
    part_of(asset).write_bytes(WEIGHTS + b"more")
    assert fetch(asset, settings, accepted=True)
    assert everything_is_there(asset)


def test_a_wrong_checksum_is_told_and_the_file_is_removed(asset, settings, server):
    server.damaged = True
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True)

    assert caught.value.notice.key == "problem.asset_checksum"
    assert not part_of(asset, "config.json").exists()
    assert not asset.folder.exists()
    server.damaged = False
    assert fetch(asset, settings, accepted=True)


def test_a_part_of_other_bytes_is_found_out_and_removed(asset, settings):
    part_of(asset).parent.mkdir(parents=True)
    part_of(asset).write_bytes(b"?" * MIB)
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True)

    assert caught.value.notice.facts == {"file": "large/weights.bin"}
    assert not part_of(asset).exists()
    assert fetch(asset, settings, accepted=True)


def test_a_checksum_that_the_lab_knows_counts_more_than_the_servers(asset, settings):
    known = replace(asset.files[0], sha256="0" * 64)
    with pytest.raises(FetchFailed) as caught:
        fetch(replace(asset, files=(known,)), settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_checksum"


def test_without_any_checksum_the_record_says_that_only_the_size_was_compared(
    asset, settings, server
):
    server.checksums = False
    assert fetch(asset, settings, accepted=True)
    record = read_record(asset.folder)
    assert {file.origin for file in record.files.values()} == {Origin.SIZE}
    assert {file.checksum for file in record.files.values()} == {""}


def test_a_damaged_file_is_told_removed_and_fetched_anew(asset, settings, server):
    assert fetch(asset, settings, accepted=True)
    damaged = bytearray(WEIGHTS)
    damaged[7] ^= 1
    (asset.folder / "large/weights.bin").write_bytes(damaged)
    (asset.folder / "mine.txt").write_text("a note of the teacher's")
    server.asked.clear()
    told = []
    assert fetch(asset, settings, accepted=True, on_notice=told.append)

    assert [notice.key for notice in told] == ["problem.asset_broken"]
    assert everything_is_there(asset)
    assert (asset.folder / "mine.txt").exists()
    assert [path for path, _ in server.asked] == ["/cdn/large/weights.bin"]


def test_files_copied_by_hand_are_checked_and_not_fetched_again(asset, settings, server):
    for name, content in FILES.items():
        (asset.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (asset.folder / name).write_bytes(content)
    assert fetch(asset, settings, accepted=True)
    assert server.asked == []
    assert read_record(asset.folder) is not None


def test_too_little_room_is_told_before_anything_is_fetched(asset, settings, server):
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True, free=lambda folder: 2.0)

    assert caught.value.notice.key == "problem.asset_space"
    assert caught.value.notice.facts["free"] == 2.0
    assert server.asked == []


def test_a_place_that_cannot_be_written_is_told(asset, settings, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FetchFailed) as caught:
        fetch(replace(asset, folder=tmp_path / "file" / "tiny"), settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_disk"


def test_offline_nothing_is_asked(asset, settings, server):
    with pytest.raises(Problem) as caught:
        fetch(asset, replace(settings, offline=True), accepted=True)
    assert caught.value.notice.key == "problem.asset_offline"
    assert not isinstance(caught.value, FetchFailed)


def test_without_the_licence_accepted_nothing_is_asked(asset, settings, server):
    with pytest.raises(Problem) as caught:
        fetch(asset, settings)
    assert caught.value.notice.key == "problem.asset_licence"
    assert asset.licence.name in texts("vi").notice(caught.value.notice)
    assert not settings.models.exists()


def test_a_free_licence_needs_no_accepting(asset, settings):
    free = replace(asset, licence=Licence("MIT", "a page"))
    assert fetch(free, settings)
    assert not read_record(asset.folder).accepted


def test_what_comes_with_the_lab_is_not_fetched(settings):
    with pytest.raises(Problem) as caught:
        fetch(assets(settings)["mini-turbo"], settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_ships"


def test_a_second_fetch_at_once_is_refused_and_the_first_goes_on(asset, settings, server):
    server.hold_after = MIB
    outcome = []
    first = threading.Thread(
        target=lambda: outcome.append(fetch(asset, settings, accepted=True)), daemon=True
    )
    first.start()
    wait_until(lambda: part_of(asset).exists())
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True)
    server.go_on.set()
    first.join(30)

    assert caught.value.notice.key == "problem.asset_busy"
    assert outcome == [True]


def test_where_nobody_listens_it_fails_at_once(asset, settings):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    files = (RemoteFile("weights.bin", f"http://127.0.0.1:{port}/weights.bin"),)
    with pytest.raises(FetchFailed) as caught:
        fetch(replace(asset, files=files), settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_no_network"


def test_a_server_that_never_answers_is_given_up(asset, settings, monkeypatch):
    monkeypatch.setattr(download, "ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        files = (RemoteFile("weights.bin", f"http://127.0.0.1:{port}/weights.bin"),)
        with pytest.raises(FetchFailed) as caught:
            fetch(replace(asset, files=files), settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_no_network"


def test_a_connection_that_breaks_again_and_again_is_told_and_the_part_kept(
    asset, settings, server, monkeypatch
):
    monkeypatch.setattr(download, "TRIES", 1)
    server.cut_after = MIB
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True)
    assert caught.value.notice.key == "problem.asset_cut"
    assert part_of(asset).stat().st_size > 0


def test_a_file_that_is_not_there_is_told_with_its_address(asset, settings, server):
    del server.files["config.json"]
    with pytest.raises(FetchFailed) as caught:
        fetch(asset, settings, accepted=True)
    assert caught.value.notice.facts["status"] == "404"


def test_a_download_over_https_is_never_sent_on_without_it():
    with pytest.raises(FetchFailed) as caught:
        download._must_be_safe("https://example.org/a", "http://example.org/a")
    assert caught.value.notice.key == "problem.asset_unsafe"


def test_real_addresses_are_encrypted_and_of_one_revision(settings, monkeypatch):
    monkeypatch.delenv("HF_ENDPOINT", raising=False)
    for asset in assets(settings).values():
        for file in asset.files:
            assert file.address.startswith("https://")
            assert "/main/" not in file.address


@pytest.mark.network
def test_real_servers_tell_a_checksum_for_every_file(settings):
    for asset in assets(settings).values():
        for file in asset.files:
            try:
                proof = look_up(file.address, file.sha256)
            except FetchFailed as failed:
                if failed.notice.key == "problem.asset_no_network":
                    pytest.skip("needs the internet")
                raise
            assert proof.origin is not Origin.SIZE, file.address
            assert proof.size > 0


def test_a_torchvision_file_is_proven_by_the_checksum_that_its_name_begins():
    assert f"resnet18-{RESNET_SHA256[:8]}.pth" == RESNET_FILE


def test_sd_turbo_is_complete_exactly_where_the_image_models_find_it(settings, tmp_path):
    asset = assets(settings)["sd-turbo"]
    model = image_models(settings)["sd-turbo"]
    assert asset.folder == model.folder
    for name in SD_TURBO_FILES:
        assert not model.here
        assert state_of(asset) is not State.HERE
        (asset.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (asset.folder / name).write_bytes(b"something")
    assert model.here
    assert state_of(asset) is State.HERE
    (asset.folder / "unet/config.json").write_bytes(b"")
    assert state_of(asset) is State.BROKEN


def test_resnet_is_looked_for_where_it_is_fetched_to(settings, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    asset = assets(settings)["resnet-18"]
    assert weights_file("resnet-18", settings) is None
    (file,) = asset.files
    asset.folder.mkdir(parents=True)
    (asset.folder / file.name).write_bytes(b"weights")
    assert weights_file("resnet-18", settings) == asset.folder / file.name


def test_a_mini_turbo_of_ones_own_is_the_one_that_is_listed(settings, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    asset = assets(replace(settings, mini_turbo_dir=own))["mini-turbo"]
    assert asset.folder == own
    assert state_of(asset) is State.MISSING

    (own / INDEX).write_text(json.dumps({block: ["diffusers", "Kind"] for block in BLOCKS}))
    header = b'{"weight": {"dtype": "F16", "shape": [3, 4], "data_offsets": [0, 24]}}'
    for block in ("text_encoder", "unet", "vae"):
        assert state_of(asset) is State.MISSING, "an index without weights is no model"
        (own / block).mkdir()
        (own / block / "model.safetensors").write_bytes(
            struct.pack("<Q", len(header)) + header + bytes(24)
        )
    assert state_of(asset) is State.HERE


def test_a_shortened_file_is_seen_without_reading_it(asset, settings):
    taesd = assets(settings)["taesd"]
    here = replace(taesd, files=asset.files, folder=asset.folder)
    assert fetch(here, settings)
    shutil.copytree(asset.folder, taesd.folder)
    record = json.loads((taesd.folder / RECORD).read_text())
    weights = "diffusion_pytorch_model.safetensors"
    record["files"] = {weights: record["files"]["large/weights.bin"]}
    (taesd.folder / RECORD).write_text(json.dumps(record))
    (taesd.folder / weights).write_bytes(WEIGHTS)
    assert state_of(taesd) is State.HERE
    (taesd.folder / weights).write_bytes(WEIGHTS[:-1])
    assert state_of(taesd) is State.BROKEN


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_command_lists_every_model_with_state_licence_and_place(language, settings, capsys):
    assert main(["assets", "--lang", language]) == 0
    out = capsys.readouterr().out
    say = texts(language)
    for asset in assets(LabSettings.load()).values():
        (told,) = [text for text in out.split("\n\n") if text.startswith(f"{asset.id}: ")]
        assert say(f"asset.use.{asset.id}") in told
        assert say(f"asset.state.{state_of(asset)}") in told
        assert asset.licence.name in told
        assert str(asset.folder) in told
        if asset.licence.accept:
            assert "--accept-licence" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "sd-turbo"),
        (["sd-trubo"], "sd-turbo"),
        (["mini-turbo"], "mini-turbo"),
        (["taesd"], "LAB_OFFLINE"),
        (["sd-turbo", "--accept"], "--accept-licence"),
    ],
    ids=str,
)
@pytest.mark.parametrize("language", LANGUAGES)
def test_bad_input_of_a_fetch_ends_with_code_2_and_one_sentence(words, said, language, capsys):
    assert main(["assets", "fetch", *words, "--lang", language]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert said in err


def test_the_command_asks_for_the_licence(capsys, monkeypatch):
    monkeypatch.setenv("LAB_OFFLINE", "false")
    assert main(["assets", "fetch", "sd-turbo", "--lang", "en"]) == 2
    err = capsys.readouterr().err
    assert "Stability AI Community License" in err
    assert "--accept-licence" in err


def test_ctrl_c_leaves_a_part_that_the_next_command_continues(tmp_path):
    home = "{}/resolve/{}/".format(*TAESD_HOME)
    weights = home + "diffusion_pytorch_model.safetensors"
    with serving({home + "config.json": b"{}", weights: WEIGHTS}) as server:
        server.hold_after = MIB
        environment = {
            **os.environ,
            "LAB_OFFLINE": "false",
            "LAB_MODELS_DIR": str(tmp_path),
            "HF_ENDPOINT": server.address,
        }
        command = [sys.executable, "-m", "core", "assets", "fetch", "taesd", "--lang", "en"]
        how = {"cwd": ROOT, "env": environment, "text": True, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, **how)
        part = tmp_path / "taesd.part" / "diffusion_pytorch_model.safetensors.part"
        wait_until(lambda: part.exists() and part.stat().st_size >= MIB // 2)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 130
        assert out == ""
        assert err.splitlines()[-1] == texts("en")("cli.asset.stopped")
        have = part.stat().st_size

        server.hold_after = None
        process = subprocess.Popen(command, stdout=subprocess.PIPE, **how)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        assert "100%" in err
        assert str(tmp_path / "taesd") in out
        assert server.bodies_of("safetensors")[-1] == f"bytes={have}-"
        assert (tmp_path / "taesd" / part.stem).read_bytes() == WEIGHTS


def test_a_fetch_that_fails_ends_with_code_1(tmp_path, monkeypatch, capsys):
    with serving({}) as server:
        monkeypatch.setenv("LAB_OFFLINE", "false")
        monkeypatch.setenv("LAB_MODELS_DIR", str(tmp_path))
        monkeypatch.setenv("HF_ENDPOINT", server.address)
        assert main(["assets", "fetch", "taesd", "--lang", "en"]) == 1
    assert "404" in capsys.readouterr().err


@pytest.mark.parametrize("language", LANGUAGES)
def test_everything_that_is_named_in_data_has_its_words(language, settings):
    say = texts(language)
    names = [f"asset.state.{state}" for state in State] + [f"asset.proof.{o}" for o in Origin]
    for asset in assets(settings).values():
        names += [f"asset.use.{asset.id}"] + [f"asset.terms.{asset.id}"] * asset.licence.accept
    assert [name for name in names if not say.has(name)] == []


def wait_until(holds, seconds=30):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came to this"
        time.sleep(0.01)
