"""What the terminal shows while the demo works: one live line, or plain lines in a log."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from mgi.demo import units

#: Seconds between two frames of the live line.
FRAME = 0.1
#: Seconds until the first and between later signs of life of a long step in a log.
FIRST_SIGN, NEXT_SIGN = 3.0, 15.0


class Step:
    """One step under way. `detail` may be changed from any thread."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.detail = ""
        self.failed = False
        """Set by the step itself when it ended well but what it looked at is wrong."""
        self.started = time.monotonic()

    def elapsed(self) -> float:
        """Seconds since the step began."""
        return time.monotonic() - self.started


class Progress:
    """Prints steps: a line that lives on a terminal, a line per event elsewhere.

    Only one step is open at a time. Drawing happens in a thread of its own, so that the line
    keeps moving while the main thread waits inside MGI or DuckDB.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stdout if stream is None else stream
        self.live = self._stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
        self.colour = self.live and not os.environ.get("NO_COLOR")
        encoding = (getattr(self._stream, "encoding", None) or "ascii").lower()
        self._unicode = "utf" in encoding
        self._lock = threading.Lock()

    def line(self, text: str = "") -> None:
        """Prints a whole line; not to be called inside a step."""
        self._write(self.plain(text) + "\n")

    def plain(self, text: str) -> str:
        """`text` with what the stream's encoding cannot show replaced."""
        if self._unicode:
            return text
        simpler = {"·": "-", units.TIMES: "x", "✓": "ok", "✗": "FAILED"}
        for fancy, simple in simpler.items():
            text = text.replace(fancy, simple)
        return text.encode("ascii", "replace").decode("ascii")

    def paint(self, code: str, text: str) -> str:
        """`text` in an ANSI colour where the stream shows colours."""
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour else text

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Shows `title` and the time it takes for as long as the block runs."""
        step = Step(title)
        done = threading.Event()
        ticker = threading.Thread(target=self._tick, args=(step, done), daemon=True)
        ticker.start()
        mark, colour = "✗", "31"
        try:
            yield step
            if not step.failed:
                mark, colour = "✓", "32"
        except KeyboardInterrupt:
            mark = "stopped"
            raise
        finally:
            done.set()
            ticker.join()
            self._finish(step, mark, colour)

    def _finish(self, step: Step, mark: str, colour: str) -> None:
        detail = f"  {step.detail}" if step.detail else ""
        start = "\r\x1b[2K" if self.live else ""
        shown = self.paint(colour, self.plain(mark))
        text = self.plain(f"{step.elapsed():7.1f} s {step.title}{detail}")
        self._write(f"{start}{text} {shown}\n")

    def _tick(self, step: Step, done: threading.Event) -> None:
        frames = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if self._unicode else "|/-\\"
        frame = 0
        wait = FRAME if self.live else FIRST_SIGN
        while not done.wait(wait):
            detail = f"  {step.detail}" if step.detail else ""
            if self.live:
                width = shutil.get_terminal_size().columns
                text = self.plain(f"{step.elapsed():7.1f} s {step.title}{detail}")
                text = text[: max(1, width - 3)]
                spinner = self.paint("36", frames[frame % len(frames)])
                self._write(f"\r\x1b[2K{text} {spinner}")
                frame += 1
            else:
                self.line(f"{step.elapsed():7.1f} s {step.title}{detail} ...")
                wait = NEXT_SIGN

    def _write(self, text: str) -> None:
        with self._lock:
            self._stream.write(text)
            self._stream.flush()
