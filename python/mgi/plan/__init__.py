"""``mgi plan``: the paths between GPUs, what they carry, and the predicted throughput."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mgi import _mgi, topo
from mgi.cli import Parser, guarded
from mgi.errors import InvalidArgument
from mgi.plan import model, paper, report, traffic
from mgi.plan.paths import Paths, find_paths

DESCRIPTION = """\
Plans a channel over the GPUs of a topology file or of a system known by name: the paths of every
pair with their GB/s, which optimizations apply and why, and the throughput that the model of
docs/simulation.md predicts. GPUs are gpu:0, gpu:1, ... over all servers, or as mgi topo names them.
Without --from, --to or --matrix every GPU sends to every GPU."""

EPILOG = """\
examples:
  mgi plan --preset testbed3 --from gpu:0 --to gpu:5       one pair: its paths, what they carry
  mgi plan --preset dgx-a100 --servers 4 --compare         all to all, beside UCX's and NCCL's paths
  mgi plan topology.xml --matrix gigabytes.csv --svg plan.svg
  mgi plan --compare                                       the paper's patterns: predicted, measured

mgi topo --help lists the presets and the facts."""


def main(argv: Sequence[str]) -> int:
    """Runs the command; 0 is fine, 1 what is refused, 2 a wrong call, 130 Ctrl-C."""
    parser = _parser()
    options = parser.parse_args(list(argv))
    _check(parser, options)
    on_paper = options.file is None and options.preset is None
    return guarded("mgi plan", lambda: (_compare_with_paper if on_paper else _plan)(options))


def _parser() -> Parser:
    parser = Parser(
        prog="mgi plan",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    topo.graph_options(parser)

    who = parser.add_argument_group("who sends to whom")
    who.add_argument("--from", metavar="GPU", dest="source", help="only this GPU sends")
    who.add_argument("--to", metavar="GPU", help="only this GPU receives")
    who.add_argument("--all-to-all", action="store_true", help="every GPU to every GPU")
    who.add_argument("--broadcast", action="store_true", help="--from sends everything to each")
    who.add_argument(
        "--matrix", metavar="CSV", type=Path, help="gigabytes from each GPU (line) to each (column)"
    )
    who.add_argument(
        "--gigabytes", metavar="GB", type=_number, help="what each source sends (default: 1)"
    )
    who.add_argument(
        "--zipf",
        metavar="THETA",
        type=_number,
        help="destinations get shares by Zipf's law (default: 0, all alike)",
    )

    rules = parser.add_argument_group("rules of the plan")
    rules.add_argument("--no-relay", action="store_true", help="no GPU passes on others' segments")
    rules.add_argument("--no-host-relay", action="store_true", help="nor does host memory")
    rules.add_argument(
        "--nics", metavar="N", type=_count, default=0, help="most NICs of a GPU (default: all)"
    )

    assumed = parser.add_argument_group("prediction")
    assumed.add_argument("--compare", action="store_true", help="beside UCX's and NCCL's paths")
    assumed.add_argument(
        "--partition",
        metavar="GB/S",
        type=_number,
        help=f"what a GPU partitions; 0 is no time at all (default: {model.PARTITION_GBPS:g})",
    )
    assumed.add_argument(
        "--other-nics",
        metavar="N",
        type=_count,
        default=1,
        help="NICs of a server that UCX and NCCL use; 0 is all (default: 1)",
    )

    output = parser.add_argument_group("output")
    output.add_argument("--table", action="store_true", help="every server's forwarding table")
    output.add_argument("--svg", metavar="OUT.svg", type=Path, help="draw the paths there")
    output.add_argument("--json", metavar="OUT", help="write JSON there; - is the output itself")
    return parser


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number < 1e12:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of 0 or more")
    return number


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of 0 or more")
    return int(text)


def _check(parser: Parser, options: argparse.Namespace) -> None:
    """Refuses calls that say two things at once."""
    given = {
        "--from": options.source,
        "--to": options.to,
        "--all-to-all": options.all_to_all,
        "--matrix": options.matrix,
        "--broadcast": options.broadcast,
        "--zipf": options.zipf,
        "--gigabytes": options.gigabytes,
        "--servers": options.servers,
        "--facts": options.facts,
        "--config": options.config,
        "--table": options.table,
        "--svg": options.svg,
    }
    named = [name for name, value in given.items() if value]
    if options.file is None and options.preset is None:
        if not options.compare:
            parser.error("expected a FILE, --preset NAME, or --compare for the paper's testbeds")
        if named:
            parser.error(f"{named[0]} goes with a FILE or --preset NAME")
    topo.check_graph_options(parser, options)
    if options.preset is not None and options.facts is not None:
        parser.error("--facts goes with a FILE")
    for alone in ("--matrix", "--all-to-all"):
        others = {"--from", "--to", "--all-to-all", "--matrix", "--broadcast"} - {alone}
        if alone == "--matrix":
            others |= {"--zipf", "--gigabytes"}
        if given[alone] and (both := [name for name in named if name in others]):
            parser.error(f"{alone} and {both[0]} say two things; give one of them")
    if options.broadcast and (options.source is None or options.to is not None):
        parser.error("--broadcast goes with --from alone")
    if options.zipf and (options.to is not None or options.broadcast):
        parser.error("--zipf goes with several destinations that share what is sent")


def _compare_with_paper(options: argparse.Namespace) -> None:
    rows = paper.compare(_conditions(options), options.partition)
    if options.json:
        topo.write_json({"comparison": rows}, options.json)
    if options.json != "-":
        print("\n".join(paper.lines(rows)))


def _plan(options: argparse.Namespace) -> None:
    topology = topo.made(options)
    gpus = traffic.gpus_of(topology)
    sent = _traffic(options, gpus)
    conditions = _conditions(options)
    planner = _mgi.Planner.over(topology)
    rules = {
        "relay_gpus": conditions.relay,
        "relay_host": conditions.host_relay,
        "max_nics": conditions.nics,
    }
    paths = find_paths(topology, planner, sent.pairs, rules)
    sources = sorted({a.vertex for a, _ in sent.pairs})
    destinations = sorted({b.vertex for _, b in sent.pairs})
    optimizations = planner.optimizations(sources, destinations, rules)
    plan = planner.plan(sources, destinations, rules)
    made = _predictions(topology, sent, conditions, options.compare)

    name = options.preset or options.file.name
    if options.json:
        found = _as_json(topology, sent, paths, made)
        found["optimizations"] = optimizations
        if options.table:
            found["tables"] = [
                {"server": each["server"], "text": each["text"], "bytes": len(each["bytes"])}
                for each in plan["servers"]
            ]
        topo.write_json(found, options.json)
    if options.svg:
        _draw(topology, paths, options.svg, f"{name}, {sent.title}")
    if options.json != "-":
        lines = [report.head(topology, name), ""]
        lines += report.path_lines(topology, paths, gpus)
        lines += report.optimization_lines(optimizations, plan)
        if options.table:
            lines += report.table_lines(plan["servers"])
        if options.compare:
            lines += report.comparison_lines(sent, conditions, made)
        elif isinstance(made["mgi"], model.Prediction):
            lines += report.prediction_lines(sent, conditions, made["mgi"])
        print("\n".join(lines))
        topo.print_warnings(topology.warnings)


def _conditions(options: argparse.Namespace) -> model.Conditions:
    rate = model.PARTITION_GBPS if options.partition is None else options.partition
    return model.Conditions(
        relay=not options.no_relay,
        host_relay=not options.no_host_relay,
        nics=options.nics,
        partition_gbps=rate,
        other_nics=options.other_nics,
    )


def _traffic(options: argparse.Namespace, gpus: Sequence[traffic.Gpu]) -> traffic.Traffic:
    if options.matrix is not None:
        return traffic.read_matrix(options.matrix, gpus)
    gigabytes = 1.0 if options.gigabytes is None else options.gigabytes
    if gigabytes == 0:
        raise InvalidArgument("--gigabytes is 0; expected more, since nothing would be sent")
    theta = options.zipf or 0.0
    source = traffic.find_gpu(gpus, options.source) if options.source is not None else None
    to = traffic.find_gpu(gpus, options.to) if options.to is not None else None
    if len(gpus) == 1:
        raise InvalidArgument("the graph has one GPU alone, so that nothing is transferred")
    if source is None:
        if to is None:
            return traffic.many_to_many(gpus, gigabytes, theta)
        return traffic.many_to_one(gpus, to, gigabytes)
    if to is not None:
        return traffic.one_to_one(source, to, gigabytes)
    if options.broadcast:
        return traffic.broadcast(gpus, source, gigabytes)
    return traffic.one_to_many(gpus, source, gigabytes, theta)


def _predictions(
    topology: _mgi.Topology, sent: traffic.Traffic, conditions: model.Conditions, compare: bool
) -> dict[str, model.Prediction | str]:
    """Of MGI alone, or of each policy; the text says why a policy has none."""
    made: dict[str, model.Prediction | str] = {}
    for policy in model.POLICIES if compare else ("mgi",):
        try:
            made[policy] = model.predict(topology, policy, sent, conditions)
        except InvalidArgument as error:
            if policy == "mgi":
                raise
            made[policy] = str(error)
    return made


def _as_json(
    topology: _mgi.Topology,
    sent: traffic.Traffic,
    paths: Paths,
    made: dict[str, model.Prediction | str],
) -> dict[str, Any]:
    return {
        "traffic": traffic.as_json(sent),
        "pairs": [pair.as_json() for pair in paths.pairs],
        "pairs_left_out": paths.left_out,
        "predictions": {
            policy: {"error": each} if isinstance(each, str) else each.as_json()
            for policy, each in made.items()
        },
        "warnings": topology.warnings,
    }


def _draw(topology: _mgi.Topology, paths: Paths, where: Path, title: str) -> None:
    """Draws the paths of one pair of each kind."""
    from mgi.topo_svg import draw

    shown = [path.as_json() for group in paths.groups(topology) for path in group.example.paths]
    where.write_text(draw(topo.graph(topology), highlighted=shown, title=title), encoding="utf-8")
