"""`LoadShape`: the requests of the tuner's load, shaped like those that the pool received. Pure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from penstock_api import names
from penstock_api.types.decision import ScalingStatus
from penstock_kubectl.history import quoted, served_rows, token_queries

PEAK_SECONDS = 300
"""Window of the rate, the highest of which counts."""
STEP_SECONDS = 60
ASSUMED = "no history: one row a request is assumed, and capacity alone is measured; --rows and --rate set both"
ASSUMED_TEXT = "no history: lengths are assumed, and capacity alone is measured; --prompt-tokens, --output-tokens and --rate set them"


@dataclass(frozen=True, slots=True)
class LoadShape:
    """Rows of the requests and their rate."""

    rows: tuple[int, ...] = (1,)
    """Rows of the requests, sent in turn."""
    rate: float | None = None
    """Requests per second and pod; None: the closed loop alone."""
    source: str = ASSUMED
    prompt_tokens: tuple[int, ...] = ()
    """Tokens of the prompts, in turn, of a pool that generates text; empty: it does not."""
    output_tokens: tuple[int, ...] = ()
    """Tokens of the answers."""

    @property
    def generates_text(self) -> bool:
        """Return whether the requests generate text."""
        return bool(self.prompt_tokens)

    def text(self) -> str:
        """Return the load in JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, text: str) -> "LoadShape | None":
        """Return the load of `text`; None if it is of another version."""
        try:
            given = json.loads(text)
            rate = given["rate"]
            rows = tuple(map(int, given["rows"]))
            prompts, outputs = (
                tuple(map(int, given.get(name, ()))) for name in ("prompt_tokens", "output_tokens")
            )
            source = str(given["source"])
            return cls(rows, None if rate is None else float(rate), source, prompts, outputs)
        except (ValueError, KeyError, TypeError):
            return None


def queries(namespace: str, pool: str, seconds: float) -> Mapping[str, str]:
    """Return PromQL queries for the rows a request, and for the highest rate of requests a pod, of the last `seconds`.

    Both are of completed requests without batch work.
    """
    which = f"namespace={quoted(namespace)},pool={quoted(pool)}"
    window = f"{seconds:.0f}s"
    completed = f"{names.METRIC_REQUEST_DURATION}_count{{{which}}}"
    pods = f"count({names.METRIC_POD_INFO}{{{which}}})"
    per_pod = f"sum(rate({completed}[{PEAK_SECONDS}s])) / {pods}"
    return {
        "rows": served_rows(namespace, pool, seconds),
        "rate": f"max_over_time(({per_pod})[{window}:{STEP_SECONDS}s])",
    }


def text_queries(namespace: str, pool: str, seconds: float) -> Mapping[str, str]:
    """Return PromQL queries for the mean tokens of prompts and answers, and for the rate, of the last `seconds`."""
    rate = queries(namespace, pool, seconds)["rate"]
    return {**token_queries(namespace, pool, seconds), "rate": rate}


def of_text_history(
    prompts: float | None, outputs: float | None, rate: float | None, seconds: float
) -> LoadShape | None:
    """Return the load of `text_queries`; None if they have no request."""
    if not prompts or not outputs or not rate:
        return None
    minutes = f"{seconds / 60:.0f}"
    source = f"Prometheus: mean lengths, of prompts with batch work, and the busiest {PEAK_SECONDS // 60} of the last {minutes} minutes a pod"
    lengths = (max(round(prompts), 1),), (max(round(outputs), 1),)
    return LoadShape((1,), rounded(rate), source, *lengths)


def of_history(rows: float | None, rate: float | None, seconds: float) -> LoadShape | None:
    """Return the load of the queries' results; None if they have no request."""
    if not rows or not rate:
        return None
    minutes = f"{seconds / 60:.0f}"
    source = f"Prometheus: mean rows, and the busiest {PEAK_SECONDS // 60} of the last {minutes} minutes a pod"
    return LoadShape((max(round(rows), 1),), rounded(rate), source)


def of_status(scaling: ScalingStatus | None, ready: int) -> LoadShape | None:
    """Return the load of the pool's status, which counts rows alone; None if it has no demand."""
    demand = None if scaling is None else scaling.rows_per_second
    if demand is None or float(demand) <= 0 or not ready:
        return None
    source = "status.scaling.rowsPerSecond a Ready pod; one row a request is assumed"
    return LoadShape((1,), rounded(float(demand) / ready), source)


def rounded(rate: float) -> float:
    """Return a rate with three significant digits."""
    return float(f"{rate:.3g}")
