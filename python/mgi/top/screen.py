"""The live view of `mgi top`: the terminal, its keys, and its return to what it was."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from types import FrameType
from typing import Any

from mgi.closing import Closing
from mgi.errors import Error
from mgi.top.figures import Figures
from mgi.top.sources import Source
from mgi.top.view import Style, clean, lines

_ENTER = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""Another screen than the one that is to be as it was, without a cursor; long lines are cut."""
_LEAVE = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def can_show() -> bool:
    """Whether keys and screen are a terminal's."""
    dumb = os.environ.get("TERM", "") in ("", "dumb")
    return sys.stdin.isatty() and sys.stdout.isatty() and not dumb


class _Asker(threading.Thread):
    """Asks at its own pace, so that keys are heard while a controller does not answer."""

    def __init__(self, source: Source, every: float, wake: int) -> None:
        super().__init__(daemon=True)
        self._source, self._every, self._wake = source, every, wake
        self._stop = threading.Event()
        self.latest: Figures | None = None
        self.trouble = ""

    def run(self) -> None:
        """Until `stop`."""
        while not self._stop.is_set():
            started = time.monotonic()
            try:
                self.latest, self.trouble = self._source.figures(), ""
            except (Error, OSError) as error:
                self.trouble = str(error)
            with contextlib.suppress(OSError):
                os.write(self._wake, b".")
            self._stop.wait(max(self._every - (time.monotonic() - started), 0.01))

    def stop(self) -> None:
        """It ends when the answer under way has come; nobody waits for that."""
        self._stop.set()


class Screen(Closing):
    """Holds the terminal while it is open. Ctrl-Z and `fg` work as ever.

    Signals are noted, and obeyed between two drawings: none leaves the terminal half changed.
    """

    def __init__(self) -> None:
        self._style = Style(
            colour=not os.environ.get("NO_COLOR"),
            unicode="utf" in (sys.stdout.encoding or "").lower(),
        )
        self._keys = sys.stdin.fileno()
        self._before: list[Any] = []
        self._handlers: dict[int, Any] = {}
        self._signals: list[int] = []
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def __enter__(self) -> Screen:
        self._before = termios.tcgetattr(self._keys)
        for number in (*_ENDING, signal.SIGTSTP, signal.SIGWINCH):
            self._handlers[number] = signal.signal(number, self._note)
        try:
            self._take()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """The terminal is as it was."""
        self._give_back()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def run(self, source: Source, every: float) -> None:
        """Draws each answer until q is pressed; Ctrl-C ends it too."""
        asker = _Asker(source, every, self._wake)
        asker.start()
        try:
            while True:
                while self._signals:
                    self._obey(self._signals.pop(0))
                self._draw(asker)
                ready, _, _ = select.select([self._keys, self._woken], [], [])
                if self._woken in ready:
                    os.read(self._woken, 1 << 12)
                if self._keys in ready:
                    pressed = b""
                    with contextlib.suppress(OSError):
                        pressed = os.read(self._keys, 1 << 10)
                    # Nothing: the terminal is gone.
                    if not pressed or b"q" in pressed.lower():
                        return
        finally:
            asker.stop()

    def _draw(self, asker: _Asker) -> None:
        width, height = _size()
        if asker.latest is None:
            said = clean(asker.trouble)[:width] or "mgi top: asking the controller"
            shown = [said]
        else:
            shown = lines(asker.latest, width, height - 1, self._style, asker.trouble)[:height]
        body = f"{_REST_OF_LINE}\r\n".join(shown)
        self._write(_HOME + body + _REST_OF_LINE + _REST_OF_SCREEN)

    def _take(self) -> None:
        tty.setcbreak(self._keys)
        self._write(_ENTER)

    def _give_back(self) -> None:
        # Who reads it may be gone, and the terminal too.
        with contextlib.suppress(OSError):
            self._write(_LEAVE)
        with contextlib.suppress(termios.error, OSError):
            termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._signals.append(number)
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake, b".")

    def _obey(self, number: int) -> None:
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number in _ENDING:
            sys.exit(128 + number)
        if number == signal.SIGTSTP:
            self._pause()

    def _pause(self) -> None:
        """Ctrl-Z: the shell gets its terminal as it was; afterwards it is ours again."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        # It goes on here.
        signal.signal(signal.SIGTSTP, self._note)
        self._take()

    @staticmethod
    def _write(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _size() -> tuple[int, int]:
    """Columns and lines as the terminal has them now, whatever COLUMNS and LINES once were."""
    size = (0, 0)
    with contextlib.suppress(OSError):
        size = os.get_terminal_size(sys.stdout.fileno())
    return size[0] or 80, size[1] or 24
