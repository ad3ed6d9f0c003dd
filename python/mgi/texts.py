"""Text files as people and other systems write them."""

from __future__ import annotations

from pathlib import Path

from mgi.errors import InvalidArgument


def read_text(path: Path) -> str:
    """A file's text, without a byte order mark and with newlines alone as the ends of lines.

    Raises :class:`mgi.InvalidArgument` that names the file where it is no UTF-8, :class:`OSError`
    where it cannot be read.
    """
    content = path.read_bytes()
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidArgument(
            f"{path}: is in UTF-16; expected UTF-8 (iconv -f UTF-16 -t UTF-8 makes it so)"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        raise InvalidArgument(f"{path}:{line}: a byte that is no UTF-8; expected a text") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")
