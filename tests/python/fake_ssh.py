"""Stands in for ssh: runs the command here, with a bare environment; -R is a relay to a port.

Some hosts are special by their name. FAKE_SSH_TAKEN is a file: while it is there, the port is
taken on the host. FAKE_SSH_LOGIN is what a login there has in its environment.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path


def carry(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def relay(there: int, here: int) -> None:
    listener = socket.create_server(("127.0.0.1", there))

    def serve() -> None:
        while True:
            near, _ = listener.accept()
            far = socket.create_connection(("127.0.0.1", here))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()


def main() -> int:
    arguments = sys.argv[1:]
    split = arguments.index("--")
    options, (host, command) = arguments[:split], arguments[split + 1 :]
    if host == "unreachable":
        print("ssh: Could not resolve hostname unreachable", file=sys.stderr)
        return 255
    if "-R" in options:
        taken = Path(os.environ.get("FAKE_SSH_TAKEN", "/nowhere"))
        if taken.exists():
            taken.unlink()
            print("Error: remote port forwarding failed for listen port", file=sys.stderr)
            return 255
        _, there, _, here = options[options.index("-R") + 1].split(":")
        relay(int(there), int(here))
    kept = {name: os.environ[name] for name in ("PATH", "MGI_TEST_MARK") if name in os.environ}
    login = os.environ.get("FAKE_SSH_LOGIN", "")
    kept.update([login.split("=", 1)] if login else [])
    if host == "greets":
        print("Hello, welcome to this host!", flush=True)
    if host == "breaks":
        warden = subprocess.Popen(["sh", "-c", command], env=kept, stdout=subprocess.PIPE)
        os.write(1, os.read(warden.stdout.fileno(), 4096))
        warden.terminate()  # killed, it would leave its folder
        warden.wait()
        return 255
    return subprocess.run(["sh", "-c", command], env=kept, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
