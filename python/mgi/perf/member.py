"""A process of ``mgi perf exchange --processes``: MGI's own, the limit's, or the operator's.

``python -m mgi.perf.member mgi|limit|operator WORD...``; bench/peers/member.hpp says what it hears
and says.
"""

from __future__ import annotations

import signal
import sys

from mgi import _mgi


def main() -> int:
    """Obeys the driver that the words name until it goes."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is no Python meanwhile to see it
    return _mgi.perf_member(sys.argv[1], sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
