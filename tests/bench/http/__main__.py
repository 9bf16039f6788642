"""`make bench-http`: our server and its peers, in turn, on the same two cores; ratios of medians."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
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
OURS_ALONE: Final = next(one for one in CONTENDERS if one.name == "penstock")


def main() -> None:
    """Run what the command line asks for."""
    options = _options()
    contenders = [
        one for one in CONTENDERS if options.only in one.name and _takes_part(one, options)
    ]
    found = HttpFigures(calibration())
    contenders = [one for one in contenders if _installed(one, found)]
    found.forming = forming_microseconds()
    for number in range(options.rounds):
        for one in contenders:
            if one.name not in found.absent:
                _round(one, number, options, found)
    _keep(found, options)
    if found.peak("penstock")[0]:
        for step in (_overload, _process_memory, _balance):
            _attempt(found, step.__name__, lambda: step(options, found))  # noqa: B023 - called at once
            _keep(found, options)
        _open_loop(contenders, options, found)
    _keep(found, options)
    show.everything(console, found)
    console.print(f"figures: {BUILD / options.json}, chart: {chart.draw(found, BUILD)}")


def _keep(found: HttpFigures, options: argparse.Namespace) -> None:
    BUILD.mkdir(parents=True, exist_ok=True)
    (BUILD / options.json).write_text(json.dumps(found.as_json(), indent=1) + "\n")


def _attempt(found: HttpFigures, name: str, step: Callable[[], None]) -> None:
    """Take a step; one whose server fails is told of, and costs the others nothing."""
    began = time.monotonic()
    try:
        step()
    except DoesNotServeError as error:
        found.absent.setdefault(name, str(error))
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
        help="whom the targets name, three short rounds: 15 minutes",
    )
    parser.add_argument(
        "--no-balance",
        dest="balance",
        action="store_false",
        help="no replicas that join: a minute less",
    )
    parser.add_argument("--only", default="", help="contenders whose name holds this")
    parser.add_argument("--rounds", type=int, help="times that each is started and measured")
    parser.add_argument("--seconds", type=float, help="of one measurement")
    parser.add_argument("--connections", type=int, nargs="*", help="of the closed loop")
    parser.add_argument(
        "--open-seconds", type=float, help="of the open loop at 50 and 80 %%; 0: none"
    )
    parser.add_argument("--overload-seconds", type=float, help="of the overload; 0: none")
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


def _installed(contender: Contender, found: HttpFigures) -> bool:
    try:
        if contender.package:
            install(contender.package)
    except NotInstalledError as error:
        found.absent[contender.name] = str(error)
        console.print(f"[yellow]{contender.name} takes no part: {error}[/]")
        return False
    return True


def _round(
    contender: Contender, number: int, options: argparse.Namespace, found: HttpFigures
) -> None:
    began = time.monotonic()
    try:
        with serving(contender) as running:
            load(running, 64, 0.5)
            for connections in options.connections:
                found.note(contender.name, connections, load(running, connections, options.seconds))
    except DoesNotServeError as error:
        found.absent[contender.name] = str(error)
        console.print(f"[yellow]{error}[/]")
        return
    rates = ", ".join(f"{c}: {found.rate(contender.name, c):,.0f}/s" for c in options.connections)
    took = time.monotonic() - began
    print(f"round {number + 1}: {contender.name}: {rates} ({took:.0f} s)", file=sys.stderr)


def _open_loop(
    contenders: list[Contender], options: argparse.Namespace, found: HttpFigures
) -> None:
    peak, _ = found.peak("penstock")
    for one in contenders:
        # beyond its own peak it would only show how long its queue grows
        shares = [
            share
            for share in (0.5, 0.8)
            if one.name == "penstock" or found.peak(one.name)[0] >= share * peak
        ]
        if one.name in found.absent or not shares or not options.open_seconds:
            continue
        _attempt(found, f"{one.name}, open loop", lambda: _open(one, shares, options, found))  # noqa: B023


def _open(
    contender: Contender, shares: Sequence[float], options: argparse.Namespace, found: HttpFigures
) -> None:
    peak, _ = found.peak("penstock")
    with serving(contender) as running:
        load(running, 64, 0.5)
        for share in shares:
            seen = load(running, 256, options.open_seconds, share * peak)
            found.opened.setdefault(contender.name, {})[share] = seen


def _overload(options: argparse.Namespace, found: HttpFigures) -> None:
    if options.overload_seconds:
        found.overload = overload(
            OURS_ALONE,
            Peak(*found.peak("penstock")),
            options.overload_seconds,
            queue_depth=options.queue_depth,
        )


def _balance(options: argparse.Namespace, found: HttpFigures) -> None:
    if options.balance:
        found.new_replicas_seconds = share_seconds(OURS_ALONE)


def _process_memory(_options: argparse.Namespace, found: HttpFigures) -> None:
    """Note what our two processes take where the engine has one of its own."""
    environment = {**OURS_ALONE.environment, "PENSTOCK_PLACEMENT": "Process"}
    apart = replace(OURS_ALONE, name="penstock, process", environment=environment)
    with serving(apart) as running:
        found.process_memory = float(load(running, 64, 2.0)["memory"])


if __name__ == "__main__":
    main()
