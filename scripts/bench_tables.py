"""What was measured, for people: Markdown that can be pasted anywhere."""

import os
import platform
import sqlite3
from collections.abc import Callable
from pathlib import Path

from bench_scenarios import STREAMING, Figures

_STREAMING_HEAD = (
    "load",
    "p50 ms",
    "p99 ms",
    "deltas/s",
    "events/s",
    "CPU s per million deltas",
    "per million events",
    "server's cores",
    "other cores",
)


def report(results: dict[str, Figures]) -> str:
    """The machine, a table of the streaming loads, a table of the rest."""
    tables = ["\n".join(f"{name}: {value}" for name, value in machine().items())]
    streamed = [_streaming_row(name, results[name]) for name in results if name in STREAMING]
    if streamed:
        line = "|---|" + "---:|" * (len(_STREAMING_HEAD) - 1)
        tables.append("\n".join([f"| {' | '.join(_STREAMING_HEAD)} |", line, *streamed]))
    rest = [row for name, rows in _ROWS.items() if name in results for row in rows(results[name])]
    if rest:
        tables.append("\n".join(["| | |", "|---|---|", *rest]))
    return "\n\n".join(tables)


def _streaming_row(name: str, r: Figures) -> str:
    return (
        f"| {STREAMING[name].title} | {r['p50_ms']:.2f} | {r['p99_ms']:.1f} "
        f"| {r['deltas_per_s']:,.0f} | {r['events_per_s']:,.0f} "
        f"| {r['cpu_s_per_m_deltas']:.1f} | {r['cpu_s_per_m_events']:.1f} "
        f"| {r['server_cores']:.2f} | {r['other_cores']:.2f} |"
    )


def _resume_rows(r: Figures) -> list[str]:
    what = f"{r['events']:,.0f} events ({r['deltas']:,.0f} deltas) read again"
    return [
        f"| {what}, the turn {state} | {r[f'{name}_ms']:.0f} ms, "
        f"the first after {r[f'{name}_first_ms']:.1f} ms; CPU {r[f'{name}_cpu_ms']:.0f} ms |"
        for name, state in (("live", "still running"), ("finished", "ended"))
    ] + [f"| the last event alone | {r['last_event_ms']:.1f} ms |"]


def _idle_rows(r: Figures) -> list[str]:
    return [
        f"| memory of each of {r['readers']:.0f} idle readers | {r['kb_per_reader']:.1f} kB |",
        f"| memory of each of {r['readers']:.0f} quiet turns | {r['kb_per_turn']:.1f} kB |",
        f"| CPU to open a reader | {r['open_cpu_ms']:.2f} ms |",
        f"| CPU to hold a reader | {r['held_cpu_us_per_reader_s']:.0f} µs a second |",
    ]


def _start_rows(r: Figures) -> list[str]:
    return [
        f"| first start, nothing compiled | {r['cold_ms']:.0f} ms; CPU {r['cold_cpu_ms']:.0f} ms |",
        f"| every other start | {r['warm_ms']:.0f} ms; CPU {r['warm_cpu_ms']:.0f} ms |",
    ]


_ROWS: dict[str, Callable[[Figures], list[str]]] = {
    "resume": _resume_rows,
    "idle": _idle_rows,
    "start": _start_rows,
}


def machine() -> dict[str, str]:
    """Where it was measured, and how busy that was with something else."""
    return {
        "machine": f"{os.cpu_count()} cores, {_processor()}, {platform.system()}",
        "python": f"{platform.python_version()}, SQLite {sqlite3.sqlite_version}",
        "load": "{:.2f} {:.2f} {:.2f}".format(*os.getloadavg()),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
