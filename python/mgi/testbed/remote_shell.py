"""A testbed's servers for launchers that reach hosts by ssh.

  python -m mgi.testbed.remote_shell TESTBED HOST COMMAND...

runs the command by a shell on the server whose name is HOST (``server1``), as ssh would.
"""

from __future__ import annotations

import sys

from mgi.testbed import main

if __name__ == "__main__":
    name, host, *words = sys.argv[1:]
    place = ["exec", "--name", name, "--server", host.removeprefix("server")]
    sys.exit(main([*place, "--", "sh", "-c", " ".join(words)]))
