"""`kubectl penstock batches`: the unfinished batches of a namespace, from its batch service. Does I/O."""

import argparse
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock_kubectl.cluster import ClusterClient

COLUMNS = ("answered", "failed", "of", "lines/s needed")


def batches(args: argparse.Namespace, console: Console) -> int:
    """Print the batches; return the exit status. Raises `PluginError`."""
    cluster = ClusterClient(args.context, args.kubeconfig)
    namespace = args.namespace or cluster.namespace
    console.print(page(cluster.batches(namespace), namespace, time.time()))
    return 0


def page(status: Mapping[str, Any], namespace: str, now: float) -> RenderableType:
    """Return the table of a batch service's status, the batch that expires first at the top."""
    listed = sorted(status["batches"], key=lambda batch: float(batch["expires_at"]))
    if not listed:
        models = ", ".join(status.get("models") or ()) or "none"
        return Text(f"no unfinished batch in {namespace}; models that can be used: {models}")
    table = Table(title=f"Batches of {namespace}", title_justify="left", box=None)
    for name in ("batch", "model", "status"):
        table.add_column(name, no_wrap=True)
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("until", no_wrap=True)
    for batch in listed:
        table.add_row(*(escape(cell) for cell in _row(batch, now)))
    return table


def _row(batch: Mapping[str, Any], now: float) -> tuple[str, ...]:
    counts, expires = batch["counts"], float(batch["expires_at"])
    left = counts["total"] - counts["completed"] - counts["failed"]
    seconds = expires - now
    in_progress = batch["status"] == "in_progress"
    needed = f"{left / seconds:.2f}" if in_progress and seconds > 0 else "-"
    until = datetime.fromtimestamp(expires, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return (
        batch["id"], batch["model"] or "-", batch["status"],
        f"{counts['completed']}", f"{counts['failed']}", f"{counts['total']}", needed, until,
    )  # fmt: skip
