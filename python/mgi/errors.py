"""What every failing call raises: :class:`Error`, or a subclass that names the kind of failure."""

from __future__ import annotations

from typing import ClassVar

from mgi import _mgi


class Error(RuntimeError):
    """A call failed; the text says what, where, and what to do."""

    code: ClassVar[str] = "Internal"
    """The kind of failure, as the C++ interface names it."""

    rows_accepted: int = 0
    """For a failing ``send``: how many of its rows the channel had taken before."""


class InvalidArgument(Error, ValueError):  # noqa: N818
    """An argument names something that is absent or contradictory."""

    code = "InvalidArgument"


class NotFound(Error, LookupError):  # noqa: N818
    """An endpoint, channel or device that does not exist (any more)."""

    code = "NotFound"


class OutOfMemory(Error, MemoryError):  # noqa: N818
    """A memory limit would be passed, or the machine has no more."""

    code = "OutOfMemory"


class Refused(Error):  # noqa: N818
    """A row or a call that this channel can never take."""

    code = "Refused"


class Closed(Error):  # noqa: N818
    """A send after the source's flush, or by a group that the source does not count."""

    code = "Closed"


class Timeout(Error, TimeoutError):  # noqa: N818
    """The caller's own time limit passed."""

    code = "Timeout"


class Stalled(Error):  # noqa: N818
    """No row moved, and what was awaited is gone or the stall limit passed."""

    code = "Stalled"


class GroupFailed(Error):  # noqa: N818
    """A kernel failed, or ended without flushing."""

    code = "GroupFailed"


class Deleted(Error):  # noqa: N818
    """The channel, endpoint or runtime was deleted while in use."""

    code = "Deleted"


class Interrupted(Error):  # noqa: N818
    """The user asked to stop (Ctrl-C) in another call on the same channel."""

    code = "Interrupted"


class Internal(Error):  # noqa: N818
    """A defect of MGI; please report it."""

    code = "Internal"


_mgi.set_error_classes(
    {
        kind.code: kind
        for kind in (
            InvalidArgument,
            NotFound,
            OutOfMemory,
            Refused,
            Closed,
            Timeout,
            Stalled,
            GroupFailed,
            Deleted,
            Interrupted,
            Internal,
        )
    }
)
