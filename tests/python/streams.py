"""Bytes over TCP sockets, each bound to an address: what links of a testbed carry.

    streams.py receive PORT ADDRESS...            one connection on each, until all are at their end
    streams.py send PORT SECONDS FROM=TO...       prints payload bits a second of each, as JSON

Run by hand on the servers of a testbed; test_testbed.py moves a few megabytes with it.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time

BLOCK = bytes(1 << 20)


def receive(port: int, addresses: list[str]) -> None:
    """Takes one connection on each address, and answers with the number of bytes that came."""
    listeners = [socket.create_server((address, port)) for address in addresses]
    print("listens", flush=True)

    def drain(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        buffer, total = bytearray(1 << 20), 0
        while got := connection.recv_into(buffer):
            total += got
        connection.sendall(total.to_bytes(8, "little"))
        connection.close()

    threads = [threading.Thread(target=drain, args=(listener,)) for listener in listeners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send(port: int, seconds: float, pairs: list[str]) -> None:
    """Sends over all pairs of addresses at once, and prints what each carried."""
    connections = []
    for pair in pairs:
        source, destination = pair.split("=")
        connections.append(
            socket.create_connection((destination, port), timeout=10, source_address=(source, 0))
        )
    rates = [0.0] * len(connections)

    def pump(index: int, connection: socket.socket) -> None:
        connection.settimeout(None)
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        arrived = int.from_bytes(connection.recv(8), "little")
        rates[index] = arrived * 8 / (time.monotonic() - start)

    threads = [threading.Thread(target=pump, args=pair) for pair in enumerate(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(rates))


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        receive(int(sys.argv[2]), sys.argv[3:])
    else:
        send(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:])
