"""`make bench-generation`: compares this engine with its peers on the same models, threads and prompts, in one run."""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import torch
from rich.console import Console

from penstock_api.pod_contract import Discipline
from penstock_runtime.engine.placement import Placement
from tests.bench.generation import environments, http, models, neighbor, planning, runs, show
from tests.bench.generation.calibration import calibrate
from tests.bench.generation.targets import STREAMS, targets
from tests.bench.generation.workload import QUICK, WHOLE, WorkSize, work

OUT = Path("build/bench/generation.json")
MODELS = Path("build/bench/models")
PEERS = (*environments.OURS, *environments.FOREIGN, *environments.SHARED)


def main() -> int:
    """Run the bench; peers that cannot run are listed with the reason."""
    args = _arguments()
    console = Console()
    console.width = max(console.width, 150)
    machine = calibrate(args.threads)
    console.print(show.calibration(machine, args.threads))
    console.print(show.dtypes(args.dtypes, has_bfloat16=_has_bfloat16()))
    times = [planning.measure(discipline) for discipline in Discipline]
    console.print(show.planning(times))
    outcomes, streams, neighbors = [], [], []
    for shape in models.SHAPES:
        if shape.name not in args.models:
            continue
        folder = models.write(shape, MODELS)
        for dtype in args.dtypes:
            peer_outcomes = [
                runs.run(peer, folder, dtype, args.size, threads=args.threads)
                for peer in args.peers
            ]
            outcomes += peer_outcomes
            console.print(show.rates(peer_outcomes))
        if args.http and peer_outcomes[0].dtype == "float32":
            busy = neighbor.measure(folder, "float32", threads=args.threads)
            console.print(show.neighbor(folder.name, busy))
            neighbors += [busy] if busy else []
            for stream in _http(folder, peer_outcomes[0], busy, args.size):
                streams.append(stream)
                console.print(stream)
    judged = targets(outcomes, times, streams)
    console.print(show.verdicts(judged))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(
        json.dumps(
            {
                "commit": _commit(),
                "size": asdict(args.size),
                "threads": args.threads,
                "dtypes": args.dtypes,
                "calibration": asdict(machine),
                "planning": [asdict(planning_time) for planning_time in times],
                "outcomes": [asdict(outcome) for outcome in outcomes],
                "neighbors": [asdict(pair) for pair in neighbors],
                "http": streams,
                "targets": [{**asdict(line), "met": line.met} for line in judged],
            },
            indent=1,
        )
    )
    console.print(f"figures in {OUT}")
    return 0


def _http(
    folder: Path, inside: runs.PeerOutcome, busy: neighbor.Neighbor | None, size: WorkSize
) -> Iterator[dict[str, object]]:
    """Yield tokens a second of 32 streams through HTTP, and their share of the in-process figure, by placement."""
    http.give_tokenizer(folder, models.VOCABULARY)
    for placement in Placement:
        record: dict[str, object] = {
            "model": folder.name,
            "streams": STREAMS,
            "placement": placement,
        }
        scratch = Path("build/bench/http") / folder.name / placement
        try:
            server = http.HttpServer(folder, scratch, "float32", placement)
        except RuntimeError as error:
            yield record | {"absent": str(error)[-300:]}
            continue
        try:
            through = _through(server, inside, size)
            yield record | through | neighbor.explained(through["of_in_process"], busy)
        finally:
            server.close()


def _through(
    server: http.HttpServer, inside: runs.PeerOutcome, size: WorkSize
) -> dict[str, object]:
    """Measure `server`. `with_a_core_each` is computed from CPU time, as if each process had its own core."""
    http.run(server.url, work("decode", STREAMS, models.VOCABULARY, QUICK))
    requested = work("decode", STREAMS, models.VOCABULARY, size)
    before = server.cpu_seconds()
    seconds = [http.run(server.url, requested) for _ in range(size.repeats)]
    spent = zip(before, server.cpu_seconds(), strict=True)
    tokens = requested.counted * size.repeats
    each = [1e6 * (after - first) / tokens for first, after in spent]
    own, rate = inside.figure("decode", STREAMS), requested.counted / min(seconds)
    return {
        "tokens_per_second": rate,
        "cpu_microseconds_a_token": each,
        "of_in_process": rate / own.tokens_per_second if own else None,
        "of_in_process_with_a_core_each": own.cpu_microseconds_a_token / max(each) if own else None,
    }


def _has_bfloat16() -> bool:
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _dtypes() -> list[str]:
    """Return the dtypes: bfloat16 if the CPU supports it, and float32 last, because the HTTP runs are compared with it."""
    return ["bfloat16", "float32"] if _has_bfloat16() else ["float32"]


def _commit() -> str:
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a short form of five minutes")
    parser.add_argument("--repeats", type=int, help="runs of each line, of which the best counts")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    names = [shape.name for shape in models.SHAPES]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--dtypes", nargs="+", choices=_dtypes(), default=_dtypes())
    parser.add_argument("--no-http", dest="http", action="store_false")
    args = parser.parse_args()
    args.size = QUICK if args.quick else WHOLE
    if args.repeats is not None:
        args.size = replace(args.size, repeats=max(1, args.repeats))
    return args


if __name__ == "__main__":
    sys.exit(main())
