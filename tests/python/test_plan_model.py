"""The throughput model against a simplex and progressive filling, both in exact fractions."""

from __future__ import annotations

import random
from fractions import Fraction
from itertools import pairwise

import pytest
from linear_program import maximize
from mgi import _mgi

RULES = {"relay_gpus": True, "relay_host": True, "max_nics": 0}


def predict(
    topology: _mgi.Topology,
    policy: str,
    demands: list[tuple[int, int, float]],
    partition_gbps: float = 0.0,
) -> dict[str, object]:
    return _mgi.predict(topology, policy, demands, partition_gbps, True, True, 0, 0)


def gpus_of(topology: _mgi.Topology) -> list[int]:
    return [v for v, vertex in enumerate(topology.vertices()) if vertex["kind"] == "gpu"]


def links_of(topology: _mgi.Topology) -> dict[tuple[int, int], float]:
    number = {vertex["name"]: v for v, vertex in enumerate(topology.vertices())}
    return {(number[e["from"]], number[e["to"]]): e["gbps"] for e in topology.edges()}


def random_server(seed: random.Random) -> str:
    """An NCCL file: GPUs and NICs below one or two switches at one CPU, NVLinks at random."""
    gpus = seed.randint(2, 5)
    bus_ids = [f"0000:{16 + g:02x}:00.0" for g in range(gpus)]
    devices = []
    for g, bus_id in enumerate(bus_ids):
        links = "".join(
            f'<nvlink target="{other}" count="{seed.randint(1, 4)}" tclass="0x030200"/>'
            for other in bus_ids[:g] + bus_ids[g + 1 :]
            if seed.random() < 0.4
        )
        devices.append(
            f'<pci busid="{bus_id}" link_speed="{seed.choice(["8 GT/s", "16 GT/s"])}" '
            f'link_width="16"><gpu sm="80">{links}</gpu></pci>'
        )
    half = seed.randint(0, gpus)
    switches = "".join(
        f'<pci busid="0000:0{i}:00.0" class="0x060400" link_speed="16 GT/s" link_width="16">'
        f"{''.join(part)}</pci>"
        for i, part in enumerate((devices[:half], devices[half:]), 1)
        if part
    )
    return (
        '<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="25" '
        f'modelid="1">{switches}</cpu></system>'
    )


@pytest.mark.parametrize("seed", range(120))
def test_a_plans_prediction_is_the_linear_programs(seed: int) -> None:
    chance = random.Random(seed)
    topology = _mgi.Topology.parse("random.xml", random_server(chance), {})
    gpus, links = gpus_of(topology), links_of(topology)
    pairs = [(a, b) for a in gpus for b in gpus if a != b and chance.random() < 0.5]
    demands = [(a, b, float(chance.randint(1, 9))) for a, b in pairs or [(gpus[0], gpus[1])]]
    planner = _mgi.Planner.over(topology)

    # Maximize the share of all demands that a second carries, over the bytes on each path.
    paths = [
        (d, list(pairwise(path["vertices"])))
        for d, (a, b, _) in enumerate(demands)
        for path in planner.paths(a, b, RULES)
    ]
    rows, limits = [], []
    for d, (_, _, gigabytes) in enumerate(demands):
        rows.append([Fraction(gigabytes), *(Fraction(-(owner == d)) for owner, _ in paths)])
        limits.append(Fraction(0))
    for link, gbps in links.items():
        if any(link in path for _, path in paths):
            rows.append([Fraction(0), *(Fraction(path.count(link)) for _, path in paths)])
            limits.append(Fraction(gbps).limit_denominator(1000))
    share = maximize([Fraction(1), *[Fraction(0)] * len(paths)], rows, limits)

    found = predict(topology, "mgi", demands)
    assert found["seconds"] == pytest.approx(float(1 / share), rel=2e-3)
    assert found["least_seconds"] <= float(1 / share) * (1 + 1e-6)


def fluid(
    capacities: dict[tuple[int, int], float],
    flows: list[tuple[list[tuple[int, int]], float, Fraction]],
) -> list[Fraction]:
    """When each flow (links, bytes, start) ends if links are shared max-min fairly."""
    left = [Fraction(size) for _, size, _ in flows]
    finish = [Fraction(0)] * len(flows)
    active: set[int] = set()
    waiting = set(range(len(flows)))
    now = Fraction(0)
    while active or waiting:
        for f in [f for f in waiting if flows[f][2] <= now]:
            waiting.remove(f)
            active.add(f)
        rates: dict[int, Fraction] = {}
        room = {link: Fraction(gbps).limit_denominator(1000) for link, gbps in capacities.items()}
        while growing := active - rates.keys():
            counts = {link: sum(link in flows[f][0] for f in growing) for link in room}
            share, narrow = min((room[k] / n, k) for k, n in counts.items() if n)
            for f in [f for f in growing if narrow in flows[f][0]]:
                rates[f] = share
                for link in flows[f][0]:
                    room[link] -= share
        events = [now + left[f] / rates[f] for f in active] + [flows[f][2] for f in waiting]
        then = min(events)
        for f in list(active):
            left[f] -= rates[f] * (then - now)
            if left[f] == 0:
                finish[f] = then
                active.remove(f)
        now = then
    return finish


@pytest.mark.parametrize("policy", ["ucx", "nccl"])
@pytest.mark.parametrize("seed", range(40))
def test_single_paths_share_links_as_a_fluid_does(seed: int, policy: str) -> None:
    chance = random.Random(seed)
    # PCIe alone, on which every pair has one path: up to where both meet, and down.
    text = random_server(chance)
    text = "".join(part.split("/>", 1)[-1] for part in text.split("<nvlink"))
    topology = _mgi.Topology.parse("random.xml", text, {})
    vertices = topology.vertices()
    number = {vertex["name"]: v for v, vertex in enumerate(vertices)}

    def upward(v: int) -> list[int]:
        found = [v]
        while (parent := vertices[found[-1]]["parent"]) is not None:
            found.append(number[parent])
        return found

    def way(a: int, b: int) -> list[tuple[int, int]]:
        up, down = upward(a), upward(b)
        meet = next(v for v in up if v in down)
        stops = up[: up.index(meet) + 1] + down[: down.index(meet)][::-1]
        return list(pairwise(stops))

    gpus = gpus_of(topology)
    demands = [(a, b, float(chance.randint(1, 9))) for a in gpus for b in gpus if a != b]
    partition = chance.choice([0.0, 16.0])
    sent = {a: sum(size for source, _, size in demands if source == a) for a in gpus}
    flows = [
        (way(a, b), size, Fraction(sent[a]) / Fraction(partition) if partition else Fraction(0))
        for a, b, size in demands
    ]
    expected = fluid(links_of(topology), flows)
    found = predict(topology, policy, demands, partition)
    assert found["finish"] == pytest.approx([float(end) for end in expected], rel=1e-6)
