"""One browser tab, as far as the server can tell: Streamlit's websocket protocol without a browser.

The path, the protobuf messages and the way a fragment is refreshed are those of Streamlit 1.67.
"""

from __future__ import annotations

import asyncio
import time
from typing import Self

import websockets
from streamlit.proto.Alert_pb2 import Alert
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

ANSWER_LIMIT_SECONDS = 60


class Tab:
    """Opens a page on `async with`, and keeps reading what the server sends until it is closed."""

    def __init__(self, host: str, page: str, *, query: str = "", cookie: str = "") -> None:
        self.opened_seconds = 0.0  # from opening the tab to the end of its page's script
        self.refresh_seconds: list[float] = []  # of the fragment that ticks fastest, asking to end
        self.buttons: dict[str, str] = {}  # widget key -> id, of the buttons seen so far
        self.ticking: dict[str, float] = {}  # fragment -> seconds between refreshes
        self._host, self._page, self._query, self._cookie = host, page, query, cookie
        self._page_hash = ""
        self._asked_at: dict[str, float] = {}  # fragment -> when the refresh now due was asked for
        self._runs = 0  # full runs of the script that have ended
        self._moved = asyncio.Condition()

    async def __aenter__(self) -> Self:
        started = time.perf_counter()
        self._socket = await websockets.connect(
            f"ws://{self._host}/_stcore/stream",
            subprotocols=[websockets.Subprotocol("streamlit")],
            additional_headers={"Cookie": self._cookie} if self._cookie else None,
            origin=websockets.Origin(f"http://{self._host}"),
            open_timeout=ANSWER_LIMIT_SECONDS,
            max_size=None,
            ping_interval=None,
        )
        self._reader = asyncio.create_task(self._read())
        await self._run_page()
        self.opened_seconds = time.perf_counter() - started
        return self

    async def __aexit__(self, *error: object) -> None:
        self._reader.cancel()
        await self._socket.close()

    async def click(self, key: str) -> None:
        """Press the button with this widget key and wait for the page that follows."""
        await self._run_page(button=self.buttons[key])

    async def watch(self, seconds: float) -> None:
        """Refresh the page's ticking fragments as a browser does, until they stop or time is up."""
        end = time.perf_counter() + seconds
        await asyncio.gather(*(self._tick(fragment, end) for fragment in list(self.ticking)))

    async def _tick(self, fragment: str, end: float) -> None:
        while fragment in self.ticking and time.perf_counter() < end:
            message = self._rerun()
            message.rerun_script.fragment_id = fragment
            message.rerun_script.is_auto_rerun = True
            # A refresh that is late is asked for again, and waited for since the first time.
            self._asked_at.setdefault(fragment, time.perf_counter())
            await self._socket.send(message.SerializeToString())
            await asyncio.sleep(self.ticking.get(fragment, 0))

    async def _run_page(self, button: str = "") -> None:
        message = self._rerun()
        if button:
            state = message.rerun_script.widget_states.widgets.add()
            state.id, state.trigger_value = button, True
        runs = self._runs
        await self._socket.send(message.SerializeToString())
        async with asyncio.timeout(ANSWER_LIMIT_SECONDS), self._moved:
            await self._moved.wait_for(lambda: self._runs > runs)

    def _rerun(self) -> BackMsg:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string, rerun.page_script_hash = self._query, self._page_hash
        if not self._page_hash:  # a browser asks for its first page by name
            rerun.page_name = self._page
        rerun.context_info.url = f"http://{self._host}/{self._page}"
        rerun.context_info.timezone, rerun.context_info.locale = "Asia/Ho_Chi_Minh", "vi"
        return message

    async def _read(self) -> None:
        async for frame in self._socket:
            message = ForwardMsg.FromString(frame if isinstance(frame, bytes) else frame.encode())
            match message.WhichOneof("type"):
                case "new_session" if not message.metadata.run.fragment_ids:
                    self._page_hash = message.new_session.page_script_hash
                    self.ticking.clear()
                    self._asked_at.clear()
                    self.buttons.clear()
                case "navigation":
                    self._page_hash = message.navigation.page_script_hash
                case "auto_rerun":
                    self.ticking[message.auto_rerun.fragment_id] = message.auto_rerun.interval
                case "stop_auto_rerun":
                    for fragment in message.stop_auto_rerun.fragment_ids:
                        self.ticking.pop(fragment, None)
                case "delta" if message.delta.new_element.WhichOneof("type") == "button":
                    button = message.delta.new_element.button.id
                    self.buttons[button.split("-", 2)[-1]] = button  # $$ID-<hash>-<key>
                case "delta" if message.delta.new_element.alert.format == Alert.ERROR:
                    raise SystemExit(f"{self._page} says: {message.delta.new_element.alert.body}")
                case "page_not_found":
                    raise SystemExit(f"no such page: {self._page}")
                case "script_finished":
                    await self._finished(message)

    async def _finished(self, message: ForwardMsg) -> None:
        # A fragment's run that found the next one waiting says that it finished early for it.
        for fragment in message.metadata.run.fragment_ids:
            asked_at = self._asked_at.pop(fragment, None)
            # Streamlit may drop the slower of two that are due together, so only one is timed.
            if asked_at and self.ticking.get(fragment) == min(self.ticking.values(), default=0):
                self.refresh_seconds.append(time.perf_counter() - asked_at)
        if message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
            async with self._moved:
                self._runs += 1
                self._moved.notify_all()
