"""The planner's joint flows and path weights against independent solvers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import pytest
from mgi import _mgi

networkx = pytest.importorskip("networkx")
numpy = pytest.importorskip("numpy")
optimize = pytest.importorskip("scipy.optimize")
sparse = pytest.importorskip("scipy.sparse")

Arc = tuple[int, int, int]
Path = tuple[int, ...]


def random_arcs(rng: random.Random, vertices: int) -> list[Arc]:
    arcs = {}
    for _ in range(rng.randint(vertices, 4 * vertices)):
        a, b = rng.sample(range(vertices), 2)
        arcs[a, b] = rng.randint(1, 12)
    return [(a, b, capacity) for (a, b), capacity in arcs.items()]


def most_over(paths: Sequence[Path], arcs: Sequence[Arc]) -> float:
    """The most that these paths carry at once: a linear program."""
    if not paths:
        return 0
    number = {(a, b): i for i, (a, b, _) in enumerate(arcs)}
    uses = sparse.lil_matrix((len(arcs), len(paths)))
    for p, path in enumerate(paths):
        for a, b in itertools.pairwise(path):
            uses[number[a, b], p] = 1
    found = optimize.linprog(
        -numpy.ones(len(paths)),
        A_ub=uses.tocsr(),
        b_ub=[capacity for _, _, capacity in arcs],
        method="highs",
    )
    assert found.status == 0
    return -found.fun


def most_apart(vertices: int, arcs: Sequence[Arc], places: Sequence[int]) -> float:
    """The most that all places send to all others, each to another one: a linear program with a
    flow for each source."""
    columns = [(s, i) for s in places for i in range(len(arcs))]
    at = {column: c for c, column in enumerate(columns)}
    gain = numpy.zeros(len(columns))
    balance, capacity = [], []
    for s in places:
        for v in range(vertices):
            row = numpy.zeros(len(columns))
            for i, (a, b, _) in enumerate(arcs):
                if b == v:
                    row[at[s, i]] += 1
                if a == v:
                    row[at[s, i]] -= 1
            if v == s:
                gain += row  # what comes back to a source is not sent
            elif v in places:
                balance.append(-row)  # may keep, may not make
            else:
                balance.extend([row, -row])
    for i in range(len(arcs)):
        row = numpy.zeros(len(columns))
        for s in places:
            row[at[s, i]] = 1
        capacity.append(row)
    found = optimize.linprog(
        gain,
        A_ub=numpy.array(balance + capacity),
        b_ub=[0] * len(balance) + [c for _, _, c in arcs],
        method="highs",
    )
    assert found.status == 0
    return -found.fun


def test_candidates_carry_the_joint_maximum_flow() -> None:
    rng = random.Random(5)
    pairs_alone_fell_short = 0
    for _ in range(300):
        vertices = rng.randint(4, 14)
        arcs = random_arcs(rng, vertices)
        roles = [rng.choice("sd--") for _ in range(vertices)]
        sources = [v for v in range(vertices) if roles[v] == "s"]
        sinks = [v for v in range(vertices) if roles[v] == "d"]
        pairs = [
            tuple(path)
            for s in sources
            for d in sinks
            for path, _ in _mgi.max_flow(vertices, arcs, s, d)[1]
        ]
        joint = [tuple(path) for path, _ in _mgi.joint_flow(vertices, arcs, sources, sinks)]
        graph = networkx.DiGraph()
        graph.add_nodes_from(["from", "to"])
        for a, b, capacity in arcs:
            graph.add_edge(a, b, capacity=capacity)
        graph.add_edges_from(("from", s) for s in sources)
        graph.add_edges_from((d, "to") for d in sinks)
        most = networkx.maximum_flow_value(graph, "from", "to") if sources and sinks else 0
        assert most_over([*pairs, *joint], arcs) == pytest.approx(most)
        pairs_alone_fell_short += most_over(pairs, arcs) < most - 1e-6
    assert pairs_alone_fell_short > 0, "the joint paths were needed"


def test_all_to_all_candidates_carry_what_can_be_sent_at_all() -> None:
    rng = random.Random(6)
    short = []
    for _ in range(100):
        vertices = rng.randint(3, 8)
        arcs = random_arcs(rng, vertices)
        places = rng.sample(range(vertices), rng.randint(2, vertices))
        pairs = [
            tuple(path)
            for s in places
            for d in places
            if s != d
            for path, _ in _mgi.max_flow(vertices, arcs, s, d)[1]
        ]
        joint = [tuple(path) for path, _ in _mgi.joint_flow(vertices, arcs, places, places)]
        most = most_apart(vertices, arcs, places)
        short.append(most_over([*pairs, *joint], arcs) / most if most else 1)
    assert min(short) > 1 - 1e-6, short


def test_path_weights_are_within_five_percent_of_the_optimum() -> None:
    rng = random.Random(7)
    for _ in range(60):
        links = rng.randint(2, 30)
        capacities = [rng.uniform(1, 50) for _ in range(links)]
        demands = [rng.uniform(0, 10) for _ in range(rng.randint(1, 30))]
        paths = [
            [sorted(rng.sample(range(links), rng.randint(1, min(5, links)))) for _ in range(6)]
            for _ in demands
        ]
        weights, congestion, bound = _mgi.path_weights(demands, paths, capacities, 0.02)
        columns = [(k, p) for k, of in enumerate(paths) for p in range(len(of))]
        load = numpy.zeros((links, len(columns) + 1))
        whole = numpy.zeros((len(demands), len(columns) + 1))
        for c, (k, p) in enumerate(columns):
            whole[k, c] = 1
            for link in paths[k][p]:
                load[link, c] = demands[k] / capacities[link]
        load[:, -1] = -1
        best = optimize.linprog(
            [0] * len(columns) + [1],
            A_ub=load,
            b_ub=[0] * links,
            A_eq=whole,
            b_eq=[1] * len(demands),
            method="highs",
        )
        assert best.status == 0
        assert bound <= best.fun * (1 + 1e-6)
        assert congestion <= 1.05 * best.fun
        assert all(sum(of) == pytest.approx(1) for of in weights)
