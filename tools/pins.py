#!/usr/bin/env python3
"""Write the hashes of all pinned Python packages, as the index has them, into their files.

    .venv/bin/python tools/pins.py            after a version was changed by hand
    .venv/bin/python tools/pins.py --check    say what differs, and change nothing

The index is pip's (pip config, PIP_INDEX_URL). Hashes are those of wheels for Linux on x86-64 and
aarch64 and for the versions of Python that MGI supports: the set-up installs nothing else, so that
no package's own set-up code runs. Where the index tells of known vulnerabilities, those of the
pinned versions are printed, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from packaging.requirements import Requirement
from packaging.tags import Tag
from packaging.utils import parse_wheel_filename

ROOT = Path(__file__).resolve().parent.parent
PYTHONS = [10, 11, 12, 13, 14]  # 3.10 and so on
MACHINES = ("x86_64", "aarch64")
SECONDS = 60


def index() -> str:
    """The simple index that pip asks."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    for line in reversed(listed.stdout.splitlines()):
        name, _, value = line.partition("=")
        if name.endswith(".index-url"):
            return value.strip("'\"").rstrip("/")
    from pip._internal.models.index import PyPI  # pip's default; it has no public name

    return PyPI.simple_url


def fetch(url: str, kind: str) -> dict:
    request = urllib.request.Request(url, headers={"Accept": kind})
    context = ssl.create_default_context(cafile=os.environ.get("PIP_CERT"))
    with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
        return json.load(answer)


def fits(tag: Tag, minors: list[int]) -> bool:
    """Whether a supported machine with one of Python 3.`minors` takes a wheel of this tag."""
    linux = tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith(MACHINES))
    if not linux:
        return False
    if tag.interpreter.startswith("py3"):
        return True
    digits = tag.interpreter.removeprefix("cp3")
    if not tag.interpreter.startswith("cp3") or not digits.isdigit():
        return False
    if tag.abi == "abi3":
        return int(digits) <= minors[-1]
    return tag.abi == tag.interpreter and int(digits) in minors


def hashes(requirement: Requirement, files: list[dict]) -> list[str]:
    """Of the wheels of the pinned version, in the order of their names."""
    marker = requirement.marker
    minors = [
        minor
        for minor in PYTHONS
        if marker is None or marker.evaluate({"python_version": f"3.{minor}"})
    ]
    found = {}
    for file in files:
        name = file["filename"]
        if not name.endswith(".whl") or file.get("yanked"):
            continue
        _, version, _, tags = parse_wheel_filename(name)
        if version in requirement.specifier and any(fits(tag, minors) for tag in tags):
            found[name] = file["hashes"]["sha256"]
    if not found:
        raise SystemExit(f"pins: the index has no wheel for {requirement}")
    return [found[name] for name in sorted(found)]


def vulnerabilities(base: str, requirement: Requirement) -> list[str] | None:
    """Sentences; None where the index does not tell."""
    (pin,) = requirement.specifier
    address = f"{base.removesuffix('/simple')}/pypi/{requirement.name}/{pin.version}/json"
    try:
        told = fetch(address, "application/json")["vulnerabilities"]
    except (urllib.error.HTTPError, KeyError):
        return None
    package = f"{requirement.name} {pin.version}"
    return [
        f"{package}: {one['id']}: {one.get('summary') or one['details'][:200]}"
        for one in told
        if not one.get("withdrawn")
    ]


def pins_of(text: str) -> list[str]:
    """A file's lines without hashes."""
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith("    --hash=")]
    return [line.removesuffix("\\").rstrip() for line in lines]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    options = parser.parse_args()
    base = index()
    untold = 0
    wrong = []
    for path in sorted(ROOT.glob("requirements*.txt")):
        text = path.read_text()
        made = []
        for line in pins_of(text):
            made.append(line)
            if not line or line.startswith("#"):
                continue
            requirement = Requirement(line)
            page = fetch(f"{base}/{requirement.name}/", "application/vnd.pypi.simple.v1+json")
            parts = [
                line,
                *(f"    --hash=sha256:{one}" for one in hashes(requirement, page["files"])),
            ]
            made[-1:] = [f"{part} \\" for part in parts[:-1]] + parts[-1:]
            known = vulnerabilities(base, requirement)
            untold += known is None
            wrong += known or []
        renewed = "\n".join(made) + "\n"
        if renewed == text:
            continue
        if options.check:
            wrong.append(f"{path.name}: its hashes are not the index's")
        else:
            path.write_text(renewed)
            print(f"pins: {path.name} is renewed")
    if untold:
        print(f"pins: of {untold} pins the index does not say whether vulnerabilities are known")
    for sentence in wrong:
        print(f"pins: {sentence}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
