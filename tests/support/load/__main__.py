"""Load generator: `python -m tests.support.load --url URL --model NAME --rate R --seconds S`, JSON lines on stdout.

With --commands it reads `rate NUMBER` and `stop` from stdin, a pipe, while it runs.
The exit code is 0 if no request was lost or answered wrongly, else 1.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Callable

from tests.support.load.arrivals import Arrivals, Process, Step, parse_schedule
from tests.support.load.generator import Generator
from tests.support.load.report import Report
from tests.support.load.samples import sample_requests
from tests.support.load.sender import Connections, Sender


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.load", description=__doc__)
    parser.add_argument("--url", required=True, help="URL of the pool: http://host:port")
    parser.add_argument("--model", required=True, help="served name")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="duration of the run")
    parser.add_argument("--schedule", type=parse_schedule, default=(), help="RATExSECONDS,...")
    parser.add_argument("--arrivals", type=Process, default=Process.POISSON, choices=list(Process))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--clients", type=int, default=0, help="keep-alive connections; 0: as many as needed"
    )
    parser.add_argument("--no-keep-alive", action="store_true", help="a connection per request")
    parser.add_argument("--rows", type=int, default=1, help="rows per request")
    parser.add_argument(
        "--features", type=int, default=8, help="features per row of the emulated model"
    )
    parser.add_argument(
        "--timeout", type=float, default=60.0, help="seconds until a request is lost"
    )
    parser.add_argument("--commands", action="store_true", help="read commands from stdin")
    return parser.parse_args(arguments)


async def run(options: argparse.Namespace, on_report: Callable[[Report], None]) -> Report:
    """Generate the load of the options and return the final report."""
    connections = Connections(not options.no_keep_alive, options.clients)
    url = f"{options.url.rstrip('/')}/v2/models/{options.model}/infer"
    schedule = options.schedule or (Step(options.rate, options.seconds),)
    clock = time.monotonic
    async with Sender(url, connections, options.timeout, clock) as sender:
        arrivals = Arrivals(options.arrivals, options.seed)
        requests = sample_requests(options.seed, options.rows, options.features)
        generator = Generator(sender, requests, arrivals, clock, rate=schedule[0].rate)
        started = clock()
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(generator.follow(schedule)),
                group.create_task(_report_each_second(generator, started, on_report)),
            ]
            if options.commands:
                tasks.append(group.create_task(_read_commands(generator)))
            await generator.run()
            await generator.settle(options.timeout)
            for task in tasks:
                task.cancel()
        return generator.report(started, final=True)


async def _report_each_second(
    generator: Generator, started: float, on_report: Callable[[Report], None]
) -> None:
    for second in itertools.count(1):
        await asyncio.sleep(max(0.0, started + second - generator.clock()))
        on_report(generator.report(started))


async def _read_commands(generator: Generator) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        word, _, value = line.decode().strip().partition(" ")
        if word == "rate":
            generator.rate = float(value)
        elif word == "stop":
            generator.stop()
        elif word:
            print(f"unknown command {word!r}: rate NUMBER or stop", file=sys.stderr)


def main() -> int:
    """Run the generator, print the reports, and return the exit code."""

    def print_report(report: Report) -> None:
        print(report.to_line(), flush=True)

    final = asyncio.run(run(parse(), print_report))
    print_report(final)
    return 1 if final.lost or final.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
