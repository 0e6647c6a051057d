"""Speech where nobody brings any: espeak-ng, from its wheel, reads sentences of ours aloud.

Many voices and two languages, so that clips differ as recordings of different people do. It is
synthetic speech all the same, and whoever shows a figure made with it says so.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from core.problems import Problem

RATE = 16_000  # Hz, of what leaves this module
SYNCHRONOUS = 2  # espeak-ng's output mode: samples go to a callback, no sound device is opened
UTF8 = 1

VARIANTS = ("", "+m1", "+f1", "+m3", "+f2", "+m5", "+f3", "+m7", "+f4", "+m8", "+f5", "+m2")
ACCENTS = {
    "vi": ("vi", "vi-vn-x-central", "vi-vn-x-south"),
    "en": ("en-us", "en-gb-x-rp", "en-gb-scotland"),
}
SENTENCES = {
    "vi": (
        "Chiều nay cả lớp cùng ngồi xem một chiếc máy tập vẽ những con số đầu tiên.",
        "Quạt gió kêu to dần, còn kim đồng hồ công suất thì nhích lên từng nấc một.",
        "Mẹ tôi bảo giọng nói qua điện thoại nghe giống thật, nhưng cách hỏi tiền thì lạ lắm.",
        "Trước khi chuyển khoản, hãy gọi lại bằng số mà mình vẫn lưu trong danh bạ.",
        "Ngoài bến sông, chuyến phà cuối ngày rúc một hồi còi dài rồi tách bờ.",
        "Người trực ca đêm ghi vào sổ: hai giờ sáng, máy số bảy nóng hơn thường lệ.",
        "Bà cụ bán chè ở đầu ngõ nhớ mặt từng đứa học trò từ mười năm trước.",
        "Đừng tin vào mắt mình quá sớm, vì tấm ảnh này chưa từng có ai chụp.",
        "Mưa rơi suốt buổi sáng, mái tôn rung lên như có người gõ trống rất nhanh.",
        "Nếu thước đo hỏng thì mọi con số đẹp đẽ phía sau đều không còn ý nghĩa.",
    ),
    "en": (
        "This afternoon the whole class watched a machine draw its first few numbers.",
        "The fan grew louder while the power meter climbed slowly, one notch at a time.",
        "My mother said the voice on the phone was right, but the question about money was odd.",
        "Before you send anything, call back on the number that you saved a long time ago.",
        "Down at the river the last ferry blew its horn and drifted away from the shore.",
        "The night shift wrote in the book that machine seven ran hotter than usual.",
        "The old lady at the corner remembers every pupil who bought sweets from her.",
        "Do not trust your eyes too early, because nobody ever took this photograph.",
        "It rained all morning, and the tin roof rattled like somebody drumming very fast.",
        "If the ruler is broken, then all the handsome figures behind it mean nothing.",
    ),
}

Wave = NDArray[np.float32]


class Voices:
    """espeak-ng, loaded once a process: its library is of one state and for one thread."""

    def __init__(self) -> None:
        """Raises Problem where the library cannot be loaded on this machine."""
        import espeakng_loader

        try:
            self._library = ctypes.CDLL(str(espeakng_loader.get_library_path()))
        except OSError as error:
            raise Problem("problem.speech_synthesiser", reason=str(error)) from error
        data = str(espeakng_loader.get_data_path()).encode()
        self._rate = int(self._library.espeak_Initialize(SYNCHRONOUS, 0, data, 0))
        if self._rate <= 0:
            raise Problem("problem.speech_synthesiser", reason="espeak_Initialize")
        self._pieces: list[NDArray[np.int16]] = []
        # Kept as long as the library may call it.
        self._callback = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p
        )(self._take)
        self._library.espeak_SetSynthCallback(self._callback)

    def _take(self, samples: ctypes._Pointer[ctypes.c_short], count: int, _events: object) -> int:
        if samples and count > 0:
            self._pieces.append(np.ctypeslib.as_array(samples, (count,)).copy())
        return 0

    def spoken(self, text: str, voice: str) -> Wave:
        """The text in this voice: (samples,) at 16 kHz, -1 to 1. Raises Problem for no voice."""
        if self._library.espeak_SetVoiceByName(voice.encode()) != 0:
            raise Problem("problem.speech_voice", voice=voice)
        self._pieces = []
        said = text.encode()
        self._library.espeak_Synth(said, len(said) + 1, 0, 1, 0, UTF8, None, None)
        if not self._pieces:
            raise Problem("problem.speech_voice", voice=voice)
        wave = np.concatenate(self._pieces).astype(np.float64) / 32_768
        shared = np.gcd(RATE, self._rate)
        return np.asarray(
            resample_poly(wave, RATE // shared, self._rate // shared), dtype=np.float32
        )


def speakers() -> tuple[tuple[str, str], ...]:
    """(language, voice) of everybody who can read, languages and accents taking turns."""
    return tuple(
        (language, f"{accents[number % len(accents)]}{variant}")
        for number, variant in enumerate(VARIANTS)
        for language, accents in ACCENTS.items()
    )


def utterances(seconds: float) -> Iterator[tuple[str, Wave]]:
    """Name and samples of one reading after another, each at least so long; it never ends."""
    voices = Voices()
    for turn in itertools.count():
        for number, (language, voice) in enumerate(speakers()):
            lines = SENTENCES[language]
            start = (turn + number) % len(lines)
            wave = np.zeros(0, dtype=np.float32)
            for line in itertools.cycle(lines[start:] + lines[:start]):
                wave = np.concatenate((wave, voices.spoken(line, voice)))
                if len(wave) >= seconds * RATE:
                    break
            yield f"{voice}/{start + 1}", wave
