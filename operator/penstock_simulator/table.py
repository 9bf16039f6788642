"""Tables of simulated runs."""

from collections.abc import Iterable, Sequence
from math import nan

from rich.markup import escape
from rich.table import Table

from penstock_simulator.outcome import RunSummary

FIGURES = ("attained", "worst 5 min", "GPU-h", "p50 ms", "p99 ms", "mean", "most", "cap", "turns/h")
"""Columns of `cells`: mean and most are replicas, cap is the mean cap."""


def table(title: str, outcomes: Sequence[RunSummary], fluid_gpu_hours: float) -> Table:
    """Return a table with one row per run."""
    per_fluid = 1 / fluid_gpu_hours if fluid_gpu_hours > 0 else nan
    rows = [[run.law, *cells(run), f"{run.gpu_hours * per_fluid:.2f}"] for run in outcomes]
    caption = f"fluid bound {fluid_gpu_hours:.2f} GPU-h; attained is of all received requests"
    caption += "".join(f"\n{line}" for line in map(generation_line, outcomes) if line is not None)
    caption += "".join(f"\n{line}" for line in map(held_line, outcomes) if line is not None)
    caption += "".join(f"\n{line}" for line in map(batch_line, outcomes) if line is not None)
    return grid(title, caption, ("law", *FIGURES, "x fluid"), rows, outcomes)


def batch_line(run: RunSummary, devices: float = 1) -> str | None:
    """Return a line about the batch work of a run; None without any."""
    work = run.batch_work
    if work is None:
        return None
    return (
        f"{run.law}: {work.in_time} of {work.batches} batches in time, {work.answered} of {work.lines} lines;"
        f" {100 * work.share:.1f} % of the rows, so {work.gpu_hours * devices:.2f} of {run.gpu_hours * devices:.2f} GPU-h"
    )


def generation_line(run: RunSummary) -> str | None:
    """Return a line about generated text; None of pods that serve batches."""
    text = run.generation
    if text is None:
        return None
    preempted = f"; {text.preemptions} preemptions" if text.preemptions else ""
    return (
        f"{run.law}: first token on time {100 * text.first_token_attainment:.2f} %, p99 {1000 * text.first_token_p99_seconds:.0f} ms;"
        f" output tokens {100 * text.output_token_attainment:.2f} %, p99 {1000 * text.output_token_p99_seconds:.0f} ms{preempted}"
    )


def held_line(run: RunSummary) -> str | None:
    """Return a line about the requests that came at zero replicas; None without any."""
    if not run.met_start:
        return None
    share = 100 * run.met_start / run.requests
    return f"{run.law}: {run.met_start} requests, {share:.2f} %, came at zero replicas and waited for a start"


def grid(
    title: str,
    caption: str,
    headings: Sequence[str],
    rows: Iterable[list[str]],
    outcomes: Iterable[RunSummary],
) -> Table:
    """Return a table of `rows`; `attained` is green for runs that attain the objective, else red."""
    view = Table(title=escape(title), title_justify="left", caption=escape(caption))
    attained = headings.index("attained")
    for index, heading in enumerate(headings):
        view.add_column(
            heading, justify="left" if index < min(2, attained) else "right", no_wrap=True
        )
    for row, result in zip(rows, outcomes, strict=True):
        style = "green" if result.attains else "red"
        shown = [escape(cell) for cell in row]
        shown[attained] = f"[{style}]{shown[attained]}[/]"
        view.add_row(*shown)
    return view


def cells(result: RunSummary, devices: float = 1) -> list[str]:
    """Return the cells of `FIGURES` for a run whose replicas have this many devices each."""
    return [
        f"{100 * result.attainment:.2f} %",
        f"{100 * result.worst_five_minutes:.1f} %",
        f"{result.gpu_hours * devices:.2f}",
        f"{1000 * result.p50_seconds:.0f}",
        f"{1000 * result.p99_seconds:.0f}",
        f"{result.mean_replicas:.1f}",
        f"{result.most_replicas}",
        f"{result.mean_cap:.1f}",
        f"{result.reversals_per_hour:.1f}",
    ]
