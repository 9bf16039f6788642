"""Tables of the HTTP bench."""

from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.http.figures import HttpFigures
from tests.bench.http.overload import GROWN_TARGET


def everything(console: Console, figures: HttpFigures) -> None:
    """Print all tables, and the absent contenders with the reasons."""
    console.print(machine(figures.calibration))
    console.print(_closed(figures))
    if figures.opened:
        console.print(_opened(figures))
    if figures.overload:
        console.print(_overload(figures))
    if figures.forming:
        console.print(f"microseconds to form a batch of 64, by requests waiting: {figures.forming}")
    console.print(_ratios(figures))
    if figures.opened and not figures.open_peers():
        console.print(
            "open loop: no peer serves 80 % of our capacity, so none can be compared there"
        )
    for name, why in figures.absent.items():
        console.print(f"[yellow]absent: {name}: {why}[/]")


def machine(calibrated: dict[str, Any]) -> str:
    """Return a line with the calibration of the machine."""
    return (
        f"{calibrated['processor']} ({' '.join(calibrated['flags'])}): {calibrated['memory_gigabytes_per_second']} GB/s"
        f" copied, {calibrated['gemm_gigaflops']} GFLOP/s, raw echo {calibrated['echo_microseconds']} us,"
        f" raw network (rows: us) {calibrated['raw_torch_microseconds']}"
    )


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for number, name in enumerate(columns):
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    return table


def _closed(figures: HttpFigures) -> Table:
    numbers = figures.connections()
    at = " / ".join(map(str, numbers))
    what = ("requests/s", "CPU us a request", "p99 ms")
    table = _table(f"closed loop: medians at {at} connections", "server", *what)
    for name in sorted(
        figures.names(), key=lambda contender: -figures.rate(contender, numbers[-1])
    ):
        table.add_row(
            f"[bold]{name}[/]" if name.startswith("penstock") else name,
            " / ".join(f"{figures.rate(name, c):,.0f}" for c in numbers),
            " / ".join(f"{figures.cpu_microseconds(name, c):,.0f}" for c in numbers),
            " / ".join(f"{figures.p99_milliseconds(name, c):.1f}" for c in numbers),
        )
    return table


def _opened(figures: HttpFigures) -> Table:
    table = _table(
        "open loop (Poisson), by share of our peak",
        "server",
        "share",
        "right/s",
        "p50 ms",
        "p99 ms",
    )
    for name, shares in figures.opened.items():
        for share, sample in shares.items():
            table.add_row(
                name,
                f"{share:.0%}",
                f"{sample['right'] / sample['seconds']:,.0f}",
                f"{sample['p50'] / 1000:.2f}",
                f"{sample['p99'] / 1000:.2f}",
            )
    return table


def _overload(figures: HttpFigures) -> Table:
    table = _table(
        f"overload at three times our peak, maxQueueDepth {figures.overload['queue_depth']}",
        "figure",
        "measured",
        "target",
    )
    sample = figures.overload
    table.add_row(
        "goodput / peak", f"{sample['goodput_ratio']:.2f}", f">= {sample['goodput_target']:.2f}"
    )
    table.add_row(
        "goodput / peak, by CPU a right answer", f"{sample['goodput_ratio_by_cpu']:.2f}", ""
    )
    table.add_row(
        "p99 of accepted, ms",
        f"{sample['p99_milliseconds']:.1f}",
        f"<= {sample['deadline_milliseconds']:.0f}",
    )
    table.add_row(
        "memory grown, MiB", f"{sample['memory_grown'] / 2**20:.1f}", f"<= {GROWN_TARGET:.0f}"
    )
    table.add_row(
        "unsent/s (no free connection for 0.1 s)", f"{sample['unsent_per_second']:,.0f}", ""
    )
    table.add_row("refused/s", f"{sample['refused_per_second']:,.0f}", "")
    return table


def _ratios(figures: HttpFigures) -> Table:
    table = _table("ratios", "line", "measured", "target")
    for line, measured, target in figures.ratios():
        if target is None:
            table.add_row(line, f"{measured:.2f}", "")
            continue
        good = measured <= target if "at most" in line else measured >= target
        colour = "green" if good else "red"
        sign = "<=" if "at most" in line else ">="
        table.add_row(line, f"[{colour}]{measured:.2f}[/]", f"{sign} {target:g}")
    return table
