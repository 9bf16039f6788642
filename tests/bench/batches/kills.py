"""Batch work next to a live trace, and through SIGKILLs of pods, batch service, Redis and operator at seeded random moments.

Rounds of three windows each serve the same stretch of the trace: alone, with batch work at a fixed low share of the places,
and with batch work in every free place. Then a batch runs to its end next to the trace while processes are killed.
The pods are the runtime on emulated devices of a + c*rows ms a step, and those of a real operator's pool
(`operated_pool.py`). Exits with 1 unless each `custom_id` is answered once, and the pool's status is right after each kill.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np
import openai
from openai.types import Batch

from penstock_api import names
from penstock_simulator.arrivals import scaled
from penstock_simulator.pods.routing import Times
from penstock_simulator.traces import read_trace
from tests.bench.batches.interactive import Attained, Streamed, attained, send
from tests.bench.batches.operated_pool import POD_LIMITS, OperatedPool, operated_pool
from tests.bench.batches.views import Seen, Views
from tests.bench.control.plan import TRACES
from tests.bench.scale.plane import enter_network
from tests.support.batches.balancer import Balancer
from tests.support.batches.paced_pod import PROGRAM
from tests.support.batches.served import ENDED, jsonl, lines_of, request_line
from tests.support.batches.stage import MODEL, PodProcess, Stage, batch_when, persistently

CHECKOUT: Final = Path(__file__).parents[3]
TOKENS: Final = 24
"""Tokens of an interactive answer."""
LINE_TOKENS: Final = 8
"""Tokens of the answer of a line."""
MAX_BATCH: Final = POD_LIMITS["maxBatchSize"]
MAX_IN_FLIGHT: Final = "PENSTOCK_MAX_IN_FLIGHT"
WINDOWS: Final = ("alone", "low share", "filled")
OPERATOR: Final = "operator"
KINDS: Final = ("pod", "service", "redis", OPERATOR)
"""What is killed, each as often as the others."""


@dataclass(slots=True)
class Window:
    """What the windows of one kind add up to."""

    streams: list[Streamed] = field(default_factory=list)
    tokens: int = 0
    seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Tokens of batch work."""
        return self.tokens / max(self.seconds, 1e-9)


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of the batch that was disturbed."""

    seconds: float
    killed: dict[str, int]
    wrong: list[str]
    """Lines that were not answered once, with `LINE_TOKENS` tokens."""
    interactive: Attained
    operator: Seen


class Run:
    """The stage and the traffic of a run."""

    def __init__(
        self, stage: Stage, operated: OperatedPool, url: str, args: argparse.Namespace
    ) -> None:
        self._stage = stage
        self._operated = operated
        self._url = url
        self._args = args
        self._client = openai.AsyncOpenAI(base_url=stage.url, api_key="none", max_retries=0)
        self._names = [f"line-{number}" for number in range(args.lines)]
        self._file = ""

    async def upload(self) -> None:
        """Upload the lines that every window takes its work from."""
        lines = [
            request_line(name, max_tokens=LINE_TOKENS, ignore_eos=True) for name in self._names
        ]
        content = ("in.jsonl", jsonl(lines))
        self._file = (await self._client.files.create(file=content, purpose="batch")).id

    async def window(self, kind: str, times: Times, into: Window) -> None:
        """Serve a stretch of the trace, with batch work of `kind` next to it."""
        places = len(self._stage.pods) * MAX_BATCH
        low = {MAX_IN_FLIGHT: str(max(1, round(self._args.low_share * places)))}
        self._stage.restart_service(**(low if kind == "low share" else {}))
        batch = None if kind == "alone" else await self._submit()
        if batch is not None:
            await batch_when(self._client, batch.id, ("in_progress",), 60)
        began = time.monotonic()
        never = asyncio.Event()
        into.streams += await send(self._url, MODEL, times.tolist(), TOKENS, never)
        into.seconds += time.monotonic() - began
        if batch is not None:
            into.tokens += await self._cancel(batch) * LINE_TOKENS

    async def kills(self, times: Times) -> Ended:
        """Run a batch to its end next to the trace, which begins again when it is over, and kill what the plan says."""
        args = self._args
        chance = random.Random(args.seed)  # noqa: S311  moments, no secret
        began = time.monotonic()
        batch = await self._submit()
        over = asyncio.Event()
        interactive = asyncio.create_task(self._repeat(times, over))
        views = Views(self._operated, self._client, batch, args.lines)
        plan = [KINDS[number % len(KINDS)] for number in range(args.kills)]
        chance.shuffle(plan)
        for kind in plan:
            await asyncio.sleep(chance.uniform(0, 2 * args.gap_seconds))
            if kind == OPERATOR:
                await views.kill_operator()
            else:
                await asyncio.to_thread(self._stage.kill, kind, chance)
        batch = await persistently(lambda: self._client.batches.retrieve(batch.id))
        if batch.status in ENDED:
            print("the batch ended before the last kill: give it more lines, or a shorter --gap")
        batch = await batch_when(self._client, batch.id, ENDED, seconds=36_000)
        seconds = time.monotonic() - began
        over.set()
        streams = await interactive
        seen = await views.at_end()
        output = await lines_of(self._client, batch.output_file_id)
        errors = await lines_of(self._client, batch.error_file_id)
        return Ended(
            seconds,
            dict(Counter(plan)),
            wrong_lines(self._names, [*output, *errors]),
            attained(streams, args.objective),
            seen,
        )

    async def close(self) -> None:
        """Close the client."""
        await self._client.close()

    async def _repeat(self, times: Times, over: asyncio.Event) -> list[Streamed]:
        streams: list[Streamed] = []
        while not over.is_set():
            streams += await send(self._url, MODEL, times.tolist(), TOKENS, over)
        return streams

    async def _submit(self) -> Batch:
        return await persistently(
            lambda: self._client.batches.create(
                input_file_id=self._file, endpoint="/v1/completions", completion_window="24h"
            )
        )

    async def _cancel(self, batch: Batch) -> int:
        """Cancel a batch, and return how many lines it had answered."""
        seen = await self._client.batches.retrieve(batch.id)
        assert seen.status == "in_progress", f"the lines did not last for a window: {seen.status}"
        assert seen.request_counts is not None
        await self._client.batches.cancel(batch.id)
        await batch_when(self._client, batch.id, ENDED, 60)
        return seen.request_counts.completed


def wrong_lines(names: list[str], lines: list[dict[str, object]]) -> list[str]:
    """Return what is wrong with the answers to `names`: how often each was answered, and with how many tokens."""
    answers = Counter(str(line["custom_id"]) for line in lines)
    wrong = [f"{name}: {answers[name]} answers" for name in names if answers[name] != 1]
    wrong += [f"{name}: unknown" for name in answers.keys() - set(names)]
    for line in lines:
        reply = line["response"]
        if (
            not isinstance(reply, dict)
            or reply["body"]["usage"]["completion_tokens"] != LINE_TOKENS
        ):
            wrong.append(f"{line['custom_id']}: {line['response'] or line['error']}")
    return wrong


async def measure(
    stage: Stage, operated: OperatedPool, url: str, args: argparse.Namespace
) -> tuple[dict[str, Window], Ended]:
    """Run the windows of all rounds, then the batch that is disturbed."""
    run, windows = Run(stage, operated, url, args), {kind: Window() for kind in WINDOWS}
    stretches = stretches_of(args)
    try:
        await run.upload()
        for number, stretch in enumerate(stretches):
            for kind in WINDOWS:
                await run.window(kind, stretch, windows[kind])
                share = attained(windows[kind].streams, args.objective)
                print(f"round {number + 1} {kind}: {share.percent:.2f} % so far", file=sys.stderr)
        stage.restart_service()
        whole = np.concatenate([part + n * args.seconds for n, part in enumerate(stretches)])
        return windows, await run.kills(whole)
    finally:
        await run.close()


def stretches_of(args: argparse.Namespace) -> list[Times]:
    """Return the arrivals of each round: the trace, compressed to the rounds' length and scaled to its load."""
    fixed, row = (float(part) / 1000 for part in args.pace.split(","))
    per_pod = MAX_BATCH / (fixed + row * MAX_BATCH) / TOKENS
    length = args.rounds * args.seconds
    times = read_trace(args.traces / TRACES[args.trace]).times
    compressed = times * (length / times[-1])
    wanted = args.load * args.pods * per_pod * length
    arrivals = scaled(compressed, wanted, args.seed, jitter=0.1)
    ends = np.searchsorted(arrivals, np.arange(1, args.rounds) * args.seconds)
    return [part - n * args.seconds for n, part in enumerate(np.split(arrivals, ends))]


@contextmanager
def staged(folder: Path, pods: list[PodProcess], url: str) -> Iterator[Stage]:
    """Start the processes, and kill them at the end."""
    settings = {
        "PENSTOCK_LEASE_SECONDS": "5",
        "PENSTOCK_STATUS_PORT": str(names.BATCHES_STATUS_PORT),
    }
    stage = Stage(folder / "stage", "redis", pods, url, **settings)
    try:
        stage.ready()
        yield stage
    finally:
        stage.end()


async def main_async(
    folder: Path, operated: OperatedPool, args: argparse.Namespace
) -> tuple[dict[str, Window], Ended]:
    """Start everything else, and measure."""
    keys = operated.control_keys()
    environment = {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PACE": args.pace,
        "PENSTOCK_PLACEMENT": "Thread",
    }
    pods = [
        PodProcess(
            folder / f"pod-{number}",
            POD_LIMITS,
            PROGRAM,
            keys,
            **environment,
            **operated.environment(number),
        )
        for number in range(args.pods)
    ]
    balancer = Balancer([(pod.host, pod.port) for pod in pods], args.seed)
    await balancer.start()
    try:
        with staged(folder, pods, balancer.url) as stage:
            operated.report_ready()
            return await measure(stage, operated, balancer.url, args)
    finally:
        balancer.close()


def show(windows: dict[str, Window], ended: Ended, args: argparse.Namespace) -> None:
    """Print the figures."""
    for kind, window in windows.items():
        share = attained(window.streams, args.objective)
        print(_line(kind, share, window.tokens_per_second, window.seconds))
    low, filled = (windows[kind].tokens_per_second for kind in ("low share", "filled"))
    print(f"filled / low share: {filled / max(low, 1e-9):.2f} times the tokens")
    rate = args.lines * LINE_TOKENS / ended.seconds
    print(_line("kills", ended.interactive, rate, ended.seconds))
    print(
        f"{args.lines} lines, killed {ended.killed}: {len(ended.wrong)} not answered once {ended.wrong[:5]}"
    )
    seen = ended.operator
    print(
        f"the pool's status right again {seen.again} s after kills of the operator, {seen.late} never;"
        f" {seen.ended_first} kills shortly before the batch's end; no batch work {seen.at_end} s after it"
    )


def _line(kind: str, share: Attained, rate: float, seconds: float) -> str:
    return (
        f"{kind:10} {share.percent:6.2f} % of {share.requests} requests on time, {share.failed} failed,"
        f" p50 {1000 * share.p50_seconds:.0f} ms, p99 {1000 * share.p99_seconds:.0f} ms;"
        f" {rate:7.1f} tokens/s of batch work in {seconds:.0f} s"
    )


def main() -> int:
    """Measure, print and write JSON; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench.batches.kills", description=__doc__
    )
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--trace", choices=list(TRACES), default="azure_conv")
    parser.add_argument("--lines", type=int, default=50_000)
    parser.add_argument("--kills", type=int, default=50, help="a fourth of each kind")
    parser.add_argument("--gap-seconds", type=float, default=10.0, help="mean time between kills")
    parser.add_argument("--pods", type=int, default=2)
    parser.add_argument("--pace", default="60,1", help="a,c of a step of a + c*rows ms")
    parser.add_argument("--load", type=float, default=0.3, help="of what the pods can serve")
    parser.add_argument("--low-share", type=float, default=0.125, help="of the pods' places")
    parser.add_argument("--objective", type=float, default=1.0, help="seconds to the first token")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of a window")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, default=Path("build/bench/batches.json"))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # SystemExit ends the processes too
    enter_network()
    with (
        TemporaryDirectory() as folder,
        operated_pool(Path(folder) / "operated", args.pods) as operated,
    ):
        windows, ended = asyncio.run(main_async(Path(folder), operated, args))
    show(windows, ended, args)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    figures = {kind: asdict(window) for kind, window in windows.items()} | {"kills": asdict(ended)}
    args.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return 1 if ended.wrong or ended.operator.late else 0


if __name__ == "__main__":
    sys.exit(main())
