#!/usr/bin/env python3
"""Draw the GPU benchmark's results: one HTML page that needs nothing beside it.

    python3 tools/gpu/plot.py RESULTS.json [PAGE.html]        default: RESULTS.html

RESULTS.json is what tools/gpu/run.sh writes, or mgi_gpu_bench's array itself: every list of
results with names in it is read. A result that has layout, row_bytes, destinations and keys stands
among the partitions, whatever its name; the paper's microbenchmarks have charts of their own; all
results stand in a table at the end. Dashed lines are floors: what the hardware would allow.
"""

import html
import json
import sys
from pathlib import Path

from svg_bars import Chart, bars

# What no chart shows as an axis or a bar; the table has it.
MEASURED = {
    "best_gbps",
    "median_gbps",
    "floor_gbps",
    "share_of_floor",
    "exact",
    "error",
    "name",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; background: #fff;
       max-width: 1240px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
p.about { color: #56606e; margin-top: 0; max-width: 52rem; }
div.charts { display: flex; flex-wrap: wrap; gap: 14px; align-items: flex-start; }
svg { border: 1px solid #e3e6ea; border-radius: 6px; max-width: 100%; height: auto; }
table { border-collapse: collapse; font-size: 13px; }
td, th { padding: 2px 10px; border-bottom: 1px solid #e3e6ea; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
.bad { color: #b3261e; font-weight: 600; }
div.wide { overflow-x: auto; }
"""


def results_of(document):
    """Every result of a document, whatever stands around it."""
    if isinstance(document, dict):
        return [result for value in document.values() for result in results_of(value)]
    if isinstance(document, list):
        return [entry for entry in document if isinstance(entry, dict) and "name" in entry]
    return []


def size(count):
    """Bytes for an axis."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if count >= 1 << power:
            return f"{count / (1 << power):g} {unit}"
    return f"{count} B"


def unique(values):
    return list(dict.fromkeys(values))


def matrix(results, group, series, value="best_gbps"):
    """Groups, and for each series its value in each group. Numbers ascend."""
    groups = unique(result[group] for result in results)
    if not any(isinstance(entry, str) for entry in groups):
        groups.sort()
    table = {}
    for result in results:
        row = table.setdefault(str(result[series]), [None] * len(groups))
        row[groups.index(result[group])] = result.get(value)
    return groups, table


def floor_of(results):
    """A floor that all of them share, or none."""
    floors = [result["floor_gbps"] for result in results if result.get("floor_gbps")]
    return max(floors) if floors and max(floors) < 1.01 * min(floors) else None


def chart_of(results, title, group, series, label=str, **more):
    groups, table = matrix(results, group, series)
    return bars(
        Chart(
            title=title,
            groups=[label(entry) for entry in groups],
            series=table,
            floor=floor_of(results),
            **more,
        )
    )


def section(title, about, charts):
    if not charts:
        return ""
    drawn = "\n".join(charts)
    return (
        f'<h2>{html.escape(title)}</h2>\n<p class="about">{html.escape(about)}</p>\n'
        f'<div class="charts">\n{drawn}\n</div>\n'
    )


def is_partition(result):
    return "best_gbps" in result and {"layout", "row_bytes", "destinations", "keys"} <= set(result)


def partitions(results):
    out = ""
    having = [
        result | {"name": result["name"].removeprefix("partition.")}
        for result in results
        if is_partition(result)
    ]
    # Ours first; each peer has its colour in every chart.
    having.sort(key=lambda result: ("mgi" not in result["name"], result["name"]))
    known = tuple(unique(result["name"] for result in having))
    for layout in unique(result["layout"] for result in having):
        for keys in unique(result["keys"] for result in having):
            charts = []
            for row_bytes in sorted({result["row_bytes"] for result in having}):
                wanted = {"layout": layout, "keys": keys, "row_bytes": row_bytes}
                some = [
                    result
                    for result in having
                    if all(result[key] == value for key, value in wanted.items())
                ]
                if some:
                    charts.append(
                        chart_of(
                            some,
                            f"rows of {row_bytes} bytes",
                            "destinations",
                            "name",
                            axis="destinations",
                            known=known,
                        )
                    )
            form = "row structs" if layout == "rows" else "columns of 8 bytes"
            out += section(
                f"Partition of {form}, {keys} keys",
                "Payload, fastest run. The floor reads and writes each byte once.",
                charts,
            )
    return out


def by_name(results, name, required="best_gbps"):
    return [result for result in results if result["name"] == name and required in result]


def split(results, key):
    """Results by the values of a parameter."""
    return [
        (value, [result for result in results if result.get(key) == value])
        for value in unique(result.get(key) for result in results)
    ]


def batching(results):
    charts = [
        chart_of(some, way, "segment_bytes", "name", label=size, axis="segment", legend=False)
        for way, some in split(by_name(results, "batching"), "way")
    ]
    about = (
        "Figure 1b: copies on one stream, by segment size. The floor is what the largest"
        " reach; within the GPU, half its traffic."
    )
    return section("Batching", about, charts)


def pipelining(results):
    charts = []
    for way, some in split(by_name(results, "pipelining"), "way"):
        named = [r | {"when": "as made" if r["pipelined"] else "once all is made"} for r in some]
        charts.append(chart_of(named, way, "when", "name", legend=False))
    about = (
        "Figure 1a: a kernel makes segments, the host copies each once it is made, or all at the"
        " end. The floor is the copy alone."
    )
    return section("Pipelining", about, charts)


def primitives(results):
    charts = []
    for way, some in split(by_name(results, "primitives"), "way"):
        named = [
            r | {"how": r["primitive"] if r["blocks"] == 0 else f"{r['primitive']} {r['blocks']}"}
            for r in some
        ]
        named = [r | {"size": size(r["buffer_bytes"])} for r in named]
        charts.append(chart_of(named, way, "how", "size", axis="primitive, blocks", width=600))
    about = "Figure 15: the host's copies against loads and stores of a kernel, a block an SM."
    return section("Transfer primitives", about, charts)


def sweeps(results):
    charts = [
        chart_of(by_name(results, name), title, "blocks", key, axis="blocks, one an SM", width=600)
        for name, title, key in (
            ("atomics", "where a tuple's place is claimed", "claim"),
            ("coalescing", "who writes a tuple", "access"),
        )
        if by_name(results, name)
    ]
    about = (
        "Figures 16 and 17: 64-byte tuples appended to buffers in GPU memory. The floor is all"
        " of its traffic, since nothing is read."
    )
    return section("Atomics and coalescing", about, charts)


def resident(results):
    charts = []
    some = [result for result in results if result["name"] == "resident" and "way" in result]
    for way, rows in split(some, "way"):
        shown = [
            r
            | {
                "size": size(r["segment_bytes"]),
                "held": r["resident"].replace("all multiprocessors", "all SMs"),
                "best_gbps": 0.0 if r.get("blocked") else r.get("best_gbps"),
            }
            for r in rows
        ]
        shown.sort(key=lambda result: (result["blocks"], result["segment_bytes"]))
        charts.append(chart_of(shown, way, "held", "size", axis="held by a kernel", width=500))
    about = "A bar of 0: the copies did not run until the kernel had ended."
    return section("Copies beside resident kernels", about, charts)


def exchanges(results):
    """Results between endpoints: MGI's own channel, or whatever says so."""
    having = [
        result
        for result in results
        if "endpoints" in result and "best_gbps" in result and not is_partition(result)
    ]
    charts = []
    for name, some in split(having, "name"):
        others = [
            key
            for key in unique(key for result in some for key in result)
            if key not in MEASURED | {"endpoints"} and len({str(r.get(key)) for r in some}) > 1
        ]
        keyed = [
            r | {"what": ", ".join(f"{r.get(key)}" for key in others if key in r) or name}
            for r in some
        ]
        title = f"{name} ({', '.join(others)})" if others else name
        charts.append(chart_of(keyed, title, "endpoints", "what", axis="endpoints", width=600))
    return section("Exchange between endpoints", "By reference where memory is shared.", charts)


def cell(value):
    if isinstance(value, bool):
        kind = "" if value else ' class="bad"'
        return f"<td{kind}>{'yes' if value else 'no'}</td>"
    if isinstance(value, float):
        return f'<td class="number">{value:.4g}</td>'
    if isinstance(value, int):
        return f'<td class="number">{value}</td>'
    return f"<td>{html.escape(str(value))}</td>"


def tables(results):
    out = "<h2>All results</h2>\n"
    for name, some in split(results, "name"):
        keys = unique(key for result in some for key in result if key != "name")
        head = "".join(f"<th>{html.escape(key)}</th>" for key in keys)
        rows = ""
        for result in some:
            cells = "".join(cell(result[key]) if key in result else "<td></td>" for key in keys)
            kind = ' class="bad"' if "error" in result else ""
            rows += f"<tr{kind}>{cells}</tr>\n"
        out += (
            f"<details><summary>{html.escape(name)}: {len(some)}</summary>\n"
            f'<div class="wide"><table>\n<tr>{head}</tr>\n{rows}</table></div></details>\n'
        )
    return out


def summary(document, results):
    gpus = [result["gpu"] for result in results if "gpu" in result]
    if isinstance(document, dict) and isinstance(document.get("gpu"), str):
        gpus.insert(0, document["gpu"])
    traffic = [result["traffic_gbps"] for result in results if "traffic_gbps" in result]
    flags = [result["median_us"] for result in by_name(results, "flags", "median_us")]
    said = [gpus[0] if gpus else "GPU unknown"]
    if traffic:
        said.append(f"copies within the GPU move {traffic[0]:.0f} GB/s, read and write together")
    if flags:
        said.append(f"a flag goes to a kernel and back in {flags[0]:.2f} us")
    bad = [r["name"] for r in results if "error" in r or r.get("exact") is False]
    text = f'<p class="about">{html.escape("; ".join(said))}.</p>\n'
    if bad:
        names = html.escape(", ".join(unique(bad)))
        text += f'<p class="bad">{len(bad)} results are errors or not exact: {names}.</p>\n'
    return text


def page_of(document):
    results = results_of(document)
    parts = (partitions, exchanges, batching, pipelining, primitives, sweeps, resident, tables)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>MGI on a GPU</title><style>{STYLE}</style></head><body>\n"
        f"<h1>MGI on a GPU</h1>\n{summary(document, results)}"
        + "".join(part(results) for part in parts)
        + "</body></html>\n"
    )


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: plot.py RESULTS.json [PAGE.html]")
    source = Path(sys.argv[1])
    target = Path(sys.argv[2]) if len(sys.argv) == 3 else source.with_suffix(".html")
    try:
        document = json.loads(source.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"plot.py: cannot read {source}: {error}")
    target.write_text(page_of(document))
    print(f"{len(results_of(document))} results drawn in {target}")


if __name__ == "__main__":
    main()
