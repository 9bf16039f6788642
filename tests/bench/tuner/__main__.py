"""`make bench-tuner`: the tuner against an exhaustive sweep of the same space, on three models and two objectives each.

The sweep is measured once and kept in `build/bench/tuner`. The best settings of both are then measured again, in turns, because the best
of many noisy measurements is partly luck: the ratio is that of the goodputs in turns.
"""

import argparse
import json
import os
import sys
from statistics import median
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from penstock_tuner.settings import LoadMeasurement, TunedSettings, TuningObjective
from tests.bench.tuner.measuring import best_of, in_turns, objectives, sweep, tune
from tests.bench.tuner.plan import FOLDER, TunedModel, models

TARGET: Final = 0.95
HEADS: Final = (
    "model", "within", "sweep: best", "goodput/s", "meet it", "tuner: best", "trials", "goodput/s", "in turns", "on time",
)  # fmt: skip


def main() -> int:
    """Run the bench and print the table; return 1 if a ratio misses the target."""
    args = _arguments()
    lines: list[dict[str, Any]] = []
    for model in models():
        if args.only in model.name:
            swept = sweep(model, args.sweep_seconds, args.passes, again=args.again)
            for limit in objectives(swept):
                lines.append(_compared(args, model, limit, best_of(swept, limit), swept))
                (model.folder / "compared.json").write_text(json.dumps(lines, indent=1))
    Console(width=160).print(_table(lines))
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"tuner {args.minutes:g} minutes for each line, {args.rounds} turns of {args.seconds:g} s; {os.cpu_count()} cores, load {load}; {FOLDER}")  # fmt: skip
    return 0 if all(line["ratio"] is not None and line["ratio"] >= TARGET for line in lines) else 1


def _compared(
    args: argparse.Namespace, model: TunedModel, limit: int, best: Any, swept: Any
) -> dict[str, Any]:
    """Return a line of the table; without settings that meet the objective on both sides it has no ratio."""
    meeting = sum(each.within(limit).meets(TuningObjective(limit)) for each in swept)
    result = tune(model, limit, args.minutes)
    first = next(iter(result["front"]), None)
    line = {
        "model": model.name,
        "limit": limit,
        "settings": len(swept),
        "meeting": meeting,
        "sweep": None
        if best is None
        else [best.settings.batch_size, best.settings.queue_delay_milliseconds],
        "sweep_goodput": None if best is None else best.within(limit).goodput,
        "trials": len(result["tried"]),
        "tuner": None
        if first is None
        else [first["batch_size"], first["queue_delay_milliseconds"]],
        "tuner_goodput": None if first is None else first["goodput"],
        "ratio": None,
        "on_time": None,
    }
    if best is None or first is None:
        return line
    tuned = TunedSettings(first["batch_size"], first["queue_delay_milliseconds"])
    swept_turns, tuned_turns = in_turns(
        model, limit, (best.settings, tuned), args.rounds, args.seconds
    )
    pairs = zip(tuned_turns, swept_turns, strict=True)
    line["ratio"] = median(mine.goodput / max(other.goodput, 1e-9) for mine, other in pairs)
    line["on_time"] = [_on_time(tuned_turns), _on_time(swept_turns)]
    sys.stderr.write(f"{model.name}, {limit} ms: {line['ratio']:.3f}\n")
    return line


def _on_time(turns: list[LoadMeasurement]) -> float:
    return sum(turn.on_time for turn in turns) / max(sum(turn.completed + turn.failed for turn in turns), 1)  # fmt: skip


def _table(lines: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title_justify="left", title="batch cap / window in ms; ratio of goodputs in turns, tuner over sweep")  # fmt: skip
    for head in HEADS:
        table.add_column(head, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(
            line["model"], f"{line['limit']} ms", _pair(line["sweep"]), _rate(line["sweep_goodput"]),
            f"{line['meeting']} of {line['settings']}", _pair(line["tuner"]), f"{line['trials']}", _rate(line["tuner_goodput"]),
            "-" if line["ratio"] is None else f"{line['ratio']:.3f}",
            "-" if line["on_time"] is None else " / ".join(f"{100 * each:.1f} %" for each in line["on_time"]),
        )  # fmt: skip
    return table


def _pair(settings: list[int] | None) -> str:
    return "none" if settings is None else f"{settings[0]} / {settings[1]}"


def _rate(goodput: float | None) -> str:
    return "-" if goodput is None else f"{goodput:.1f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.tuner", description=__doc__)
    parser.add_argument("--only", default="", help="a model")
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="time of the tuner for each line"
    )
    parser.add_argument(
        "--sweep-seconds", type=float, default=1.0, help="of each setting, in each pass"
    )
    parser.add_argument("--passes", type=int, default=3, help="of the sweep, the best counts")
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--rounds", type=int, default=6, help="turns of each of the best settings")
    parser.add_argument("--again", action="store_true", help="measure a kept sweep again")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
