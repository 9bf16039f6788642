"""`make bench-http`: compares our server with its peers on the same two cores, by ratios of medians."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from rich.console import Console

from penstock_runtime.serving.limits import FIRST_LIMITS
from tests.bench.http import chart, show
from tests.bench.http.balance import share_seconds
from tests.bench.http.calibrate import calibration
from tests.bench.http.environments import NotInstalledError, install
from tests.bench.http.figures import HttpFigures
from tests.bench.http.forming import forming_microseconds
from tests.bench.http.overload import QUEUE_DEPTH, Peak, overload
from tests.bench.http.plan import BUILD, CONNECTIONS, CONTENDERS, Contender
from tests.bench.http.running import DoesNotServeError, load, serving

console = Console(width=120)
OURS_ALONE: Final = next(contender for contender in CONTENDERS if contender.name == "penstock")


def main() -> None:
    """Run the selected measurements."""
    options = _options()
    contenders = [
        contender
        for contender in CONTENDERS
        if options.only in contender.name and _takes_part(contender, options)
    ]
    figures = HttpFigures(calibration())
    contenders = [contender for contender in contenders if _installed(contender, figures)]
    figures.forming = forming_microseconds()
    for number in range(options.rounds):
        for contender in contenders:
            if contender.name not in figures.absent:
                _round(contender, number, options, figures)
    _keep(figures, options)
    if figures.peak("penstock")[0]:
        for step in (_overload, _process_memory, _balance):
            _attempt(figures, step.__name__, lambda: step(options, figures))  # noqa: B023 - called at once
            _keep(figures, options)
        _open_loop(contenders, options, figures)
    _keep(figures, options)
    show.everything(console, figures)
    console.print(f"figures: {BUILD / options.json}, chart: {chart.draw(figures, BUILD)}")


def _keep(figures: HttpFigures, options: argparse.Namespace) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / options.json).write_text(json.dumps(figures.as_json(), indent=1) + "\n")


def _attempt(figures: HttpFigures, name: str, step: Callable[[], None]) -> None:
    """Run a step; if its server fails, report it and continue with the others."""
    began = time.monotonic()
    try:
        step()
    except DoesNotServeError as error:
        figures.absent.setdefault(name, str(error))
        console.print(f"[yellow]{name}: {error}[/]")
    print(f"{name} ({time.monotonic() - began:.0f} s)", file=sys.stderr)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.http", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="few peers, two short rounds: 5 minutes"
    )
    parser.add_argument(
        "--decisive",
        action="store_true",
        help="contenders that targets name, three short rounds: 15 minutes",
    )
    parser.add_argument(
        "--no-balance",
        dest="balance",
        action="store_false",
        help="without the measurement of joining replicas, which takes a minute",
    )
    parser.add_argument("--only", default="", help="only contenders whose name contains this")
    parser.add_argument(
        "--rounds",
        type=int,
        help="rounds, in each of which every contender is started and measured",
    )
    parser.add_argument("--seconds", type=float, help="seconds of one measurement")
    parser.add_argument(
        "--connections", type=int, nargs="*", help="numbers of connections of the closed loop"
    )
    parser.add_argument(
        "--open-seconds", type=float, help="seconds of the open loop at 50 and 80 %%; 0: none"
    )
    parser.add_argument("--overload-seconds", type=float, help="seconds of the overload; 0: none")
    parser.add_argument(
        "--queue-depth",
        type=int,
        default=QUEUE_DEPTH,
        help=f"of the overload; a pool's default is {FIRST_LIMITS.max_queue_depth}",
    )
    parser.add_argument("--json", default="http.json", help="file below build/bench")
    options = parser.parse_args()
    defaults: dict[str, Any] = {
        "rounds": 2 if options.quick else 3,
        "seconds": 2.0 if options.quick else 3.0 if options.decisive else 5.0,
        "connections": [1, 64]
        if options.quick
        else [1, 64, 256]
        if options.decisive
        else list(CONNECTIONS),
        "open_seconds": 3.0 if options.quick else 10.0,
        "overload_seconds": 5.0 if options.quick else 60.0,
    }
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def _takes_part(contender: Contender, options: argparse.Namespace) -> bool:
    if options.decisive:
        return contender.decisive
    return contender.quick or not options.quick


def _installed(contender: Contender, figures: HttpFigures) -> bool:
    try:
        if contender.package:
            install(contender.package)
    except NotInstalledError as error:
        figures.absent[contender.name] = str(error)
        console.print(f"[yellow]{contender.name} takes no part: {error}[/]")
        return False
    return True


def _round(
    contender: Contender, number: int, options: argparse.Namespace, figures: HttpFigures
) -> None:
    began = time.monotonic()
    try:
        with serving(contender) as running:
            load(running, 64, 0.5)
            for connections in options.connections:
                figures.note(
                    contender.name, connections, load(running, connections, options.seconds)
                )
    except DoesNotServeError as error:
        figures.absent[contender.name] = str(error)
        console.print(f"[yellow]{error}[/]")
        return
    rates = ", ".join(f"{c}: {figures.rate(contender.name, c):,.0f}/s" for c in options.connections)
    took = time.monotonic() - began
    print(f"round {number + 1}: {contender.name}: {rates} ({took:.0f} s)", file=sys.stderr)


def _open_loop(
    contenders: list[Contender], options: argparse.Namespace, figures: HttpFigures
) -> None:
    peak, _ = figures.peak("penstock")
    for contender in contenders:
        # a load beyond a server's peak would only measure the growth of its queue
        shares = [
            share
            for share in (0.5, 0.8)
            if contender.name == "penstock" or figures.peak(contender.name)[0] >= share * peak
        ]
        if contender.name in figures.absent or not shares or not options.open_seconds:
            continue
        step = partial(_open, contender, shares, options, figures)
        _attempt(figures, f"{contender.name}, open loop", step)


def _open(
    contender: Contender, shares: Sequence[float], options: argparse.Namespace, figures: HttpFigures
) -> None:
    peak, _ = figures.peak("penstock")
    with serving(contender) as running:
        load(running, 64, 0.5)
        for share in shares:
            sample = load(running, 256, options.open_seconds, share * peak)
            figures.opened.setdefault(contender.name, {})[share] = sample


def _overload(options: argparse.Namespace, figures: HttpFigures) -> None:
    if options.overload_seconds:
        figures.overload = overload(
            OURS_ALONE,
            Peak(*figures.peak("penstock")),
            options.overload_seconds,
            queue_depth=options.queue_depth,
        )


def _balance(options: argparse.Namespace, figures: HttpFigures) -> None:
    if options.balance:
        figures.new_replicas_seconds = share_seconds(OURS_ALONE)


def _process_memory(_options: argparse.Namespace, figures: HttpFigures) -> None:
    """Record the memory of our two processes when the engine has its own."""
    environment = {**OURS_ALONE.environment, "PENSTOCK_PLACEMENT": "Process"}
    apart = replace(OURS_ALONE, name="penstock, process", environment=environment)
    with serving(apart) as running:
        figures.process_memory = float(load(running, 64, 2.0)["memory"])


if __name__ == "__main__":
    main()
