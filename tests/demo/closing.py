"""The last page of the demo: figures, paths of picture and record, and commands to try next."""

import os
from collections.abc import Sequence

from tests.demo.director import acknowledgement_text
from tests.demo.outcome import Run, changes, failures
from tests.demo.story import NAMESPACE, POOL
from tests.support.cluster import kind
from tests.support.kube.target import Target


def page(run: Run, pictures: Sequence[str], record: str, target: Target) -> list[str]:
    """Return the lines to print."""
    lines = ["", "What happened"]
    lines += [f"  {name}: {seconds:.1f} s" for name, seconds in run.timings.items()]
    lines += [f"  edit, {acknowledgement_text(edit)}: {edit.command}" for edit in run.edits]
    lines += [
        f"  batch cap (second: rows): {_listed(changes(run.moments, lambda moment: moment.cap))}"
    ]
    lines += [
        f"  replicas ready (second: pods): {_listed(changes(run.moments, lambda moment: moment.ready))}"
    ]
    if run.final:
        lines += [
            (
                f"  lost: {run.final.lost + run.final.wrong} of {run.final.sent} requests"
                f" (refused with Retry-After: {run.final.refused})"
            ),
            f"  latency of all: p50 {run.final.p50} ms, p99 {run.final.p99} ms",
        ]
    lines += [f"  picture: {file}" for file in pictures]
    lines += [f"  record: {record}"]
    lines += [f"  NOT SHOWN: {note}" for note in run.notes]
    lines += [f"  FAILED: {reason}" for reason in failures(run)]
    return lines + next_steps(target)


def next_steps(target: Target) -> list[str]:
    """Return the commands to try next."""
    context = f" --context {target.context}" if target.foreign else ""
    if target.context == kind.CONTEXT:  # its kubeconfig is our own: `tests.support.cluster.kind.up`
        export = [f"  export KUBECONFIG={os.environ.get('KUBECONFIG', '')}"]
        end = " ".join(map(str, kind.delete_command()))
    elif target.foreign:
        export, end = [], f"kubectl{context} delete namespace {NAMESPACE}"
    else:
        export = [f"  export KUBECONFIG={target.kubeconfig} PATH={target.programs}:$PATH"]
        end = "make cluster-down"
    return [
        "",
        "The pool is still running. Commands to try next",
        *export,
        f"  kubectl{context} get pspool -n {NAMESPACE}",
        f"  kubectl{context} get pods -n {NAMESPACE}    # the pools', and their gateway's",
        f"  kubectl{context} get pspool {POOL} -n {NAMESPACE} -o yaml    # status.lastDecision has the reason",
        f"  kubectl{context} get events -n {NAMESPACE} --sort-by=.lastTimestamp",
        f"  kubectl{context} scale pspool {POOL} -n {NAMESPACE} --replicas=3    # Auto ignores and reports it",
        f"  kubectl{context} delete pspool {POOL} -n {NAMESPACE}    # deletes everything of it",
        f"  {end}    # at the end",
    ]


def _listed(points: Sequence[tuple[int, object]]) -> str:
    return ", ".join(f"{second}: {value}" for second, value in points) or "unknown"
