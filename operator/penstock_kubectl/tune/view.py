"""The result of `tune`: the front as a table with costs, as JSON, and the policy. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import Any

import yaml
from rich.table import Table

from penstock_kubectl.cost_text import ReplicaPrice
from penstock_kubectl.pool_context import (
    PoolContext,
    policy_object,
    previous_defaults,
    with_policies,
)
from penstock_kubectl.tune.load_shape import LoadShape
from penstock_operator.decide.cost.prices import money
from penstock_operator.decide.planning.shadow import apply_candidate
from penstock_operator.decide.spec.effective import effective
from penstock_operator.decide.spec.live_fields import live_fields
from penstock_operator.decide.spec.origins import SPEC
from penstock_operator.decide.spec.selectors import matching
from penstock_operator.observed import PolicyObject
from penstock_tuner.pareto_front import candidate_policy, failures, figures, front, nearest, rows
from penstock_tuner.record import TriedSettings
from penstock_tuner.settings import TunedSettings, TuningObjective

LABEL_NAMESPACE = "kubernetes.io/metadata.name"
WRITTEN_FIELDS = ("candidate", "namespace_selector", "pool_selector")
"""Fields of a policy's spec that `tune` writes."""
THOUSAND_PER_HOUR = 3.6
"""Thousands of requests in an hour at 1 request per second."""


@dataclass(frozen=True, slots=True)
class TuneResult:
    """What was measured for a pool."""

    subject: PoolContext
    objective: TuningObjective
    load: LoadShape
    tried: tuple[TriedSettings, ...]
    price: ReplicaPrice | None

    @property
    def front(self) -> list[TriedSettings]:
        """Settings that meet the objective and that no others surpass, best goodput first."""
        return front(self.tried, self.objective)

    @property
    def shown(self) -> list[TriedSettings]:
        """The front; the settings that miss the objective least if none meets it."""
        return self.front or [nearest(self.tried)]


def table(result: TuneResult) -> Table:
    """Return the front with the cost of 1,000 requests, if a price is known."""
    objective, pool = result.objective, result.subject.pool
    title = f"{pool.namespace}/{pool.name}: within {objective.text()} for {objective.percent:g} %"
    shown = Table(title=title, title_justify="left", box=None)
    heads, *cells = rows(result.shown)
    price = result.price
    cost = () if price is None else (f"1,000 requests, {price.currency}".rstrip(", "),)
    for head in (*heads, *cost):
        shown.add_column(head, justify="right", no_wrap=True)
    for each, line in zip(result.shown, cells, strict=True):
        shown.add_row(*line, *(() if price is None else (_cost(price, each),)))
    return shown


def _cost(price: ReplicaPrice, each: TriedSettings) -> str:
    amount = cost_of_thousand(price, each)
    return "-" if amount is None else money(amount)


def cost_of_thousand(price: ReplicaPrice, each: TriedSettings) -> Decimal | None:
    """Return the price of 1,000 requests on time on a busy replica; None without any."""
    goodput = each.measurement.goodput
    return price.per_hour / Decimal(THOUSAND_PER_HOUR * goodput) if goodput else None


def as_json(result: TuneResult, policy: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return everything: objective, load, front, all trials, and the policy."""
    return {
        "pool": f"{result.subject.pool.namespace}/{result.subject.pool.name}",
        "objective": asdict(result.objective),
        "load": asdict(result.load),
        "front": [_figures(each, result.price) for each in result.front],
        "tried": [_figures(each, result.price) for each in result.tried],
        "notes": list(notes(result)),
        "policy": policy,
    }


def _figures(each: TriedSettings, price: ReplicaPrice | None) -> dict[str, Any]:
    amount = None if price is None else cost_of_thousand(price, each)
    return {**figures(each), **({} if amount is None else {"cost_per_thousand": money(amount)})}


def policy(result: TuneResult) -> dict[str, Any] | None:
    """Return the policy whose candidate has the settings of the best goodput, for this pool's labels; None without any."""
    pool = result.subject.pool
    if not result.front:
        return None
    selectors: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {LABEL_NAMESPACE: pool.namespace}}
    }
    if pool.labels:
        selectors["poolSelector"] = {"matchLabels": dict(pool.labels)}
    return candidate_policy(
        result.front[0].settings, policy_name(pool.namespace, pool.name), selectors
    )


def policy_name(namespace: str, pool: str) -> str:
    """Return the name of a pool's policy."""
    return f"tuned-{namespace}-{pool}"


def policy_text(manifest: Mapping[str, Any]) -> str:
    """Return a policy in YAML."""
    text: str = yaml.safe_dump(dict(manifest), sort_keys=False)
    return text


def notes(result: TuneResult) -> Iterator[str]:
    """Yield what the reader needs to know of the result and of the policy."""
    pool = result.subject.pool
    yield from failures(result.tried)
    if not result.front:
        yield f"none of {len(result.tried)} trials meets the objective; the nearest is shown, and there is no policy"
        return
    best = result.front[0].settings
    generates = best.queue_delay_milliseconds is None
    yield from _of_the_spec(best, generates=generates)
    yield from _not_in_force(result)
    if not pool.labels:
        yield f"the pool has no labels, so that the policy selects every pool of {pool.namespace}"
    yield from _other_candidate(result)


def _of_the_spec(best: TunedSettings, *, generates: bool) -> Iterator[str]:
    if best.backend is not None:
        field = "spec.generation.computeBackend" if generates else "spec.model.backend"
        yield f"{field}: {best.backend} is part of the pool's spec, not of a policy"
    if best.dtype is not None:
        yield f"spec.model.dtype: {best.dtype} is part of the pool's spec; status.modelBackend has its error"
    if best.threads is not None:
        yield f"OMP_NUM_THREADS={best.threads} is set in spec.template.container.env"


def _not_in_force(result: TuneResult) -> Iterator[str]:
    """Yield sentences on the tuned fields that have another value with the policy's candidate in force."""
    subject = result.subject
    tuned = _as_applied(subject, policy_object(policy(result) or {}))
    labels = {**subject.namespace_labels, LABEL_NAMESPACE: subject.pool.namespace}
    policies = apply_candidate(with_policies(subject, [tuned]), tuned)
    spec = effective(subject.pool, labels, policies, previous_defaults(subject))
    defaults = {
        each.name: live_fields(each.spec.defaults)
        for each in matching(subject.pool.labels, labels, policies)
        if each.spec.defaults is not None
    }
    values = defaults.pop(tuned.name)
    lost = [path for path, value in values.items() if spec.fields.get(path) != value]
    own = [path for path in lost if spec.origins.get(path) == SPEC]
    if own:
        fixed = ", ".join(f"spec.{path}" for path in own)
        yield f"the pool sets {fixed}, which no policy's default replaces: edit the pool to use them"
    for path in lost:
        if path not in own:
            others = [name for name, fields in defaults.items() if path in fields]
            why = _why(spec.origins.get(path, ""), others)
            yield f"with this policy spec.{path} is {spec.fields.get(path, 'unset')}, not {values[path]}: {why}"


def _as_applied(subject: PoolContext, tuned: PolicyObject) -> PolicyObject:
    """Return the policy as `--apply` leaves it: a live one of its name keeps its other fields, such as the priority."""
    live = next((each for each in subject.policies if each.name == tuned.name), tuned)
    written = {name: getattr(tuned.spec, name) for name in WRITTEN_FIELDS}
    return replace(live, spec=live.spec.model_copy(update=written))


def _why(origin: str, others: Sequence[str]) -> str:
    """Return why a field has another value than this policy's default; `others` are the policies that set it too."""
    if origin.startswith("Bound "):
        return f"policy {origin.removeprefix('Bound ')} bounds it"
    if others:
        return f"policy {', '.join(others)} sets it too: set a higher spec.priority in this one"
    return "other fields of the pool limit it"


def _other_candidate(result: TuneResult) -> Iterator[str]:
    subject = result.subject
    own = policy_name(subject.pool.namespace, subject.pool.name)
    others = matching(subject.pool.labels, subject.namespace_labels, subject.policies)
    for other in others:
        if other.spec.candidate is not None and other.name != own:
            yield f"policy {other.name} has a candidate for this pool already; the first by priority is evaluated"
            return
