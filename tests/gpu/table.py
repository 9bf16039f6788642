"""The last table of a run: each figure with a target, whether it is met, and what did not hold or was left out."""

from collections.abc import Iterable, Mapping
from typing import Any

Records = Mapping[str, Mapping[str, Any]]
"""Records as written, by part."""
WIDTH = 62


def table(records: Records) -> str:
    """Return the table as text."""
    lines = [f"{'figure':{WIDTH}} {'measured':>10} {'target':>10}  met"]
    for name, record in records.items():
        lines.append(f"{name}: {record['outcome']} in {record['seconds']:g} s {record['why']}".rstrip())  # fmt: skip
        lines += [f"  {row}" for row in _rows(record)]
    return "\n".join([*lines, verdict(records)])


def _rows(record: Mapping[str, Any]) -> Iterable[str]:
    checks = [figure for figure in record["figures"] if isinstance(figure["target"], bool)]
    for figure in record["figures"]:
        if figure["target"] is None or isinstance(figure["target"], bool):
            continue
        bound = f"{'<=' if figure['at_most'] else '>='} {figure['target']:g}"
        met = {True: "yes", False: "NO", None: "-"}[figure["met"]]
        yield f"{figure['name']:{WIDTH - 2}} {figure['value']:>10.4g} {bound:>10}  {met}"
    if checks:
        yield f"{sum(figure['met'] for figure in checks)} of {len(checks)} checks hold"
    for figure in checks:
        if not figure["met"]:
            yield f"DOES NOT HOLD: {figure['name']} ({figure['unit']})"
    for what, why in record["failures"].items():
        yield f"FAILED: {what}: {why}"
    for what, why in record["missing"].items():
        yield f"left out: {what}: {why}"


def verdict(records: Records) -> str:
    """Return the last line."""
    figures = [figure for record in records.values() for figure in record["figures"]]
    checks = [figure["met"] for figure in figures if isinstance(figure["target"], bool)]
    judged = [
        figure["met"]
        for figure in figures
        if not isinstance(figure["target"], bool) and figure["met"] is not None
    ]
    complete = sum(record["outcome"] == "complete" for record in records.values())
    return (
        f"{complete} of {len(records)} parts complete, {sum(checks)} of {len(checks)} checks hold,"
        f" {sum(judged)} of {len(judged)} targets met"
    )


def succeeded(records: Records) -> bool:
    """Return whether every part is complete and every check holds; a missed target is a figure, not a failure."""
    return all(
        record["outcome"] == "complete"
        and all(figure["met"] for figure in record["figures"] if isinstance(figure["target"], bool))
        for record in records.values()
    )
