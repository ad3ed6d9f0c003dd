"""For test_cluster.py: controllers, agents, applications and etcd as processes, and wires."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("MGI_BUILD", ROOT / "build/release"))
CONTROL, APP = BUILD / "mgi-control", BUILD / "mgi_cluster_app"
PATIENCE = 30.0
"""Seconds that anything may take on a busy machine. Nothing is ever asserted to be faster."""

TIMES = ["--heartbeat-ms=100", "--lease-ms=600", "--grace-ms=6000"]


def wait_for(what: str, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
    """The condition's first result that is true."""
    end = time.monotonic() + patience
    while True:
        with contextlib.suppress(OSError):
            if result := condition():
                return result
        assert time.monotonic() < end, f"{what} did not come in {patience:.0f} s"
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program whose output goes to a file; dies with the test."""

    def __init__(self, log: Path, arguments: list[str], **options: Any) -> None:
        self.log, self.arguments, self.options = log, [str(a) for a in arguments], options
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as out:
            options = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": out, **self.options}
            self.popen = subprocess.Popen(self.arguments, **options)

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def kill(self) -> None:
        """As kill -9 does it."""
        self.popen.kill()
        self.popen.wait()

    def stop(self) -> int:
        """As an operator does it; the exit status."""
        self.popen.terminate()
        return self.popen.wait(PATIENCE)

    def said(self, text: str) -> bool:
        return text in self.log.read_text(errors="replace")


class Controller(Process):
    """`before` are words that start its command elsewhere, where it listens at `host`."""

    def __init__(
        self,
        folder: Path,
        name: str,
        *options: str,
        host: str = "127.0.0.1",
        before: Sequence[str] = (),
        times: Sequence[str] = tuple(TIMES),
    ) -> None:
        self.address, self.web = (f"{host}:{free_port()}" for _ in range(2))
        storage = (
            [] if any(o.startswith("--etcd") for o in options) else [f"--state={folder / name}"]
        )
        arguments = [*before, CONTROL, "controller", "--listen", self.address, "--http", self.web]
        super().__init__(folder / f"{name}.log", [*arguments, *storage, *times, *options])

    def fetch(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.web}/{path}", timeout=PATIENCE) as answer:
            return answer.read().decode()

    def status(self) -> dict[str, Any]:
        return json.loads(self.fetch("status.json"))

    def server(self, name: str) -> dict[str, Any]:
        found = [s for s in self.status()["servers"] if s["name"] == name]
        return found[0] if found else {"state": "unknown"}

    def channel(self, number: int) -> dict[str, Any]:
        found = [c for c in self.status()["channels"] if c["id"] == number]
        return found[0] if found else {"state": "unknown"}

    def wait_state(self, server: str, state: str, patience: float = PATIENCE) -> None:
        wait_for(f"{server}: {state}", lambda: self.server(server)["state"] == state, patience)

    def wait_leading(self) -> None:
        wait_for(f"{self.address} leads", lambda: self.status()["leader"])


class Agent(Process):
    """`before` as with a controller."""

    def __init__(
        self,
        folder: Path,
        name: str,
        controllers: str,
        *options: str,
        before: Sequence[str] = (),
    ) -> None:
        self.name, self.socket = name, folder / f"{name}.sock"
        arguments = [*before, CONTROL, "agent", "--name", name, "--controller", controllers]
        has_graph = any(option.startswith("--topology") for option in options)
        preset = [] if has_graph else ["--preset", "hgx-h100"]
        where = ["--socket", self.socket, "--log-level", "debug"]
        super().__init__(folder / f"{name}.log", [*arguments, *where, *preset, *options])


class App(Process):
    """An application that joined through an agent; see tests/cluster/app.cpp."""

    def __init__(self, folder: Path, agent: Agent) -> None:
        self.events: list[dict[str, Any]] = []
        self._answers: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        wait_for(f"{agent.name}'s socket", agent.socket.exists)
        super().__init__(
            folder / f"app-{agent.name}.log",
            [APP, agent.socket, f"app of {agent.name}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()
        assert self._answer() == {"server": agent.name}

    def _read(self) -> None:
        for line in self.popen.stdout:
            said = json.loads(line) | {"at": time.monotonic()}
            with self._changed:
                (self.events if "event" in said else self._answers).append(said)
                self._changed.notify_all()

    def _answer(self) -> dict[str, Any]:
        with self._changed:
            assert self._changed.wait_for(lambda: self._answers, PATIENCE), "no answer"
            answer = self._answers.pop(0)
        del answer["at"]
        return answer

    def try_call(self, op: str, **fields: Any) -> dict[str, Any]:
        self.popen.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.popen.stdin.flush()
        return self._answer()

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        answer = self.try_call(op, **fields)
        assert "error" not in answer, f"{op} {fields}: {answer['error']}"
        return answer

    def endpoint(self, device: str = "") -> int:
        return self.call("endpoint", device=device)["endpoint"]

    def wait_event(self, event: str, **fields: Any) -> dict[str, Any]:
        """The first such event, also one of the past."""

        def found() -> dict[str, Any] | None:
            wanted = ({"event": event} | fields).items()
            return next((e for e in self.events if wanted <= e.items()), None)

        with self._changed:
            told = self._changed.wait_for(found, PATIENCE)
            assert told, f"no {event} {fields}; there were {self.events}"
            return found()

    def ended(self, channel: int) -> list[dict[str, Any]]:
        return [e for e in self.events if e["event"] == "ended" and e["channel"] == channel]


class Wire:
    """A TCP connection's way that can be cut without either side hearing of it."""

    def __init__(self, target: str) -> None:
        self._target = target.split(":")
        self._whole = threading.Event()
        self._whole.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._whole.clear()

    def heal(self) -> None:
        self._whole.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(near,), daemon=True).start()

    def _join(self, near: socket.socket) -> None:
        self._whole.wait()
        try:
            far = socket.create_connection((self._target[0], int(self._target[1])), PATIENCE)
        except OSError:
            near.close()
            return
        far.settimeout(None)
        for one, other in ((near, far), (far, near)):
            threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                self._whole.wait()
                other.sendall(data)
        self._whole.wait()
        for end in (one, other):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()
        self._whole.set()


class Etcd(Process):
    """A member of an etcd cluster."""

    def __init__(self, folder: Path, name: str, peers: dict[str, int], port: int) -> None:
        self.address = f"127.0.0.1:{port}"
        cluster = ",".join(f"{n}=http://127.0.0.1:{p}" for n, p in peers.items())
        peer = f"http://127.0.0.1:{peers[name]}"
        arguments = {
            "name": name,
            "data-dir": folder / name,
            "listen-client-urls": f"http://{self.address}",
            "advertise-client-urls": f"http://{self.address}",
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": cluster,
            "log-level": "error",
        }
        command = [shutil.which("etcd") or "etcd", *(f"--{k}={v}" for k, v in arguments.items())]
        super().__init__(folder / f"{name}.log", command)

    def leads(self) -> bool:
        request = urllib.request.Request(f"http://{self.address}/v3/maintenance/status", b"{}")
        with urllib.request.urlopen(request, timeout=5) as answer:
            status = json.load(answer)
        return status.get("leader") == status["header"]["member_id"]

    def put(self, key: str, value: str) -> None:
        entry = {
            name: base64.b64encode(text.encode()).decode()
            for name, text in (("key", key), ("value", value))
        }
        url = f"http://{self.address}/v3/kv/put"
        request = urllib.request.Request(url, json.dumps(entry).encode())
        urllib.request.urlopen(request, timeout=5).close()


class Cluster:
    """Everything that a test started; ends with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._all: list[Process | Wire] = []

    def keep(self, made: Any) -> Any:
        """Has it end with the others."""
        self._all.append(made)
        return made

    def controller(self, name: str = "controller", *options: str) -> Controller:
        return self.keep(Controller(self.folder, name, *options))

    def agent(self, name: str, controllers: str, *options: str) -> Agent:
        return self.keep(Agent(self.folder, name, controllers, *options))

    def app(self, agent: Agent) -> App:
        return self.keep(App(self.folder, agent))

    def wire(self, target: str) -> Wire:
        return self.keep(Wire(target))

    def etcds(self, count: int) -> list[Etcd]:
        peers = {f"etcd{number}": free_port() for number in range(count)}
        return [self.keep(Etcd(self.folder, name, peers, free_port())) for name in peers]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that ends by itself."""
        words = [str(CONTROL), *map(str, arguments)]
        return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def close(self) -> None:
        for made in reversed(self._all):
            if isinstance(made, Wire):
                made.close()
            else:
                with contextlib.suppress(ProcessLookupError):
                    made.signal(signal.SIGCONT)
                made.kill()

    def logs(self) -> str:
        """The end of what each process said."""
        parts = []
        for log in sorted(self.folder.glob("*.log")):
            parts.append(f"---- {log.name}\n" + log.read_text(errors="replace")[-3000:])
        return "\n".join(parts)
