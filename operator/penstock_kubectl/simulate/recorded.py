"""What a simulation starts from: the arrivals and the pods of a pool's history, or of what the user gives. Does I/O."""

import argparse
import time
from contextlib import suppress
from dataclasses import replace
from math import exp

from penstock_api import names
from penstock_api.pod_contract import CurveSums
from penstock_api.types.model import Task
from penstock_api.types.pool import PoolSpec
from penstock_api.types.status import PoolStatus
from penstock_api.types.variants import VariantSpec
from penstock_kubectl import prometheus
from penstock_kubectl.cluster import ClusterClient
from penstock_kubectl.cost_text import ReplicaPrice, replica_price
from penstock_kubectl.errors import NotEnoughData, PluginError, PoolNotFound
from penstock_kubectl.history import DemandHistory, TimeRange, demand, span
from penstock_kubectl.pool_context import PoolContext, pool_object
from penstock_kubectl.simulate.cases import (
    NORMAL_P90,
    STARTUP_SIGMA,
    devices,
    service_of,
    startup_p90,
)
from penstock_kubectl.simulate.scenario import (
    AlikePods,
    MixedPods,
    RecordedWorld,
    generation,
    steps_of,
)
from penstock_operator.decide.variant_pools.merge import variant_spec
from penstock_operator.decide.variant_pools.ranges import in_order
from penstock_operator.observed import PoolObject
from penstock_simulator.arrivals import steps
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.pods.routing import Times
from penstock_simulator.pods.step_time import Lengths, StepModel, distinct
from penstock_simulator.scenario import ColdStarts
from penstock_simulator.traces import UnreadableTrace, read_trace
from penstock_simulator.variants.scenario import PoolVariant

NO_BATCHES = "--batch: the simulated pods of a pool of task TextGeneration take no batch work"
NO_TEXT = "a pool of task TextGeneration with variants cannot be simulated: simulate the pool of one variant, {}"
NO_CURVES = "the service curve of no variant is known yet: set t(b) = a + c*b of each by --curve NAME=A,C in ms"
MAX_UNKNOWN = 0.2
"""Limit of the unknown share of the history; more interpolation would not represent the demand."""
MAX_ARRIVALS = 20_000_000
"""Limit of arrivals, for which a run takes minutes."""


def recorded(
    cluster: ClusterClient, subject: PoolContext, args: argparse.Namespace
) -> tuple[RecordedWorld, AlikePods | MixedPods]:
    """Return the arrivals and the pods.

    Raises:
        NotEnoughData: the history or the options lack something.
        Unreachable: Prometheus is unreachable.
    """
    generates = subject.pool.spec.model.task is Task.TEXT_GENERATION
    if generates and subject.pool.spec.variants:
        first = names.variant_pool(subject.pool.name, subject.pool.spec.variants[0].name)
        raise NotEnoughData(NO_TEXT.format(first))
    if generates and args.batch:
        raise NotEnoughData(NO_BATCHES)
    check_names(subject, args)
    url = prometheus.url_of(subject, args.prometheus)
    arrivals, lengths, source, began, length = _arrivals(cluster, url, subject, args)
    if generates:
        arrivals = distinct(arrivals)
    world = RecordedWorld(subject, arrivals, length, source, began, args.seed, tuple(args.batch))
    if subject.pool.spec.variants:
        return world, _mixed_pods(cluster, url, subject, args)
    return world, _alike_pods(cluster, url, world, lengths, args)


def check_names(subject: PoolContext, args: argparse.Namespace) -> None:
    """Check that the options of single variants name those of the pool.

    Raises:
        NotEnoughData: a name is missing, or is none of a variant.
    """
    variants = [each.name for each in subject.pool.spec.variants or ()]
    for option, value in (("--curve", "A,C"), ("--price", "AMOUNT")):
        for name in dict(getattr(args, option.removeprefix("--"))):
            if not variants and name:
                raise NotEnoughData(
                    f"{option} {name}=...: pool {subject.pool.name} has no variants"
                )
            if variants and name not in variants:
                raise NotEnoughData(
                    f"{option}: pool {subject.pool.name} has the variants {', '.join(variants)}: use {option} NAME={value}"
                )


def _arrivals(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace
) -> tuple[Times, Lengths | None, str, float, float]:
    """Return the arrivals with the tokens of a trace, their source, start in Unix seconds, and length in seconds."""
    over, lengths = span(time.time(), args.last), None
    if args.trace is not None:
        try:
            trace, source = read_trace(args.trace), f"trace {args.trace.name}"
            arrivals, lengths, began = trace.unscaled(), trace.lengths, over.end
            length = trace.duration
        except UnreadableTrace as error:
            raise NotEnoughData(str(error)) from error
    else:
        if url is None:
            raise NotEnoughData(f"{prometheus.WHERE}, or --trace FILE")
        known = _demand(cluster, url, subject, over)
        source = f"Poisson at the rates of the last {args.last / 3600:.3g} h{_gaps(known)}"
        _check_count(source, sum(rate * seconds for rate, seconds in known.rates), least=0)
        arrivals, began = steps(known.rates, args.seed), known.began
        length = sum(seconds for _, seconds in known.rates)
    _check_count(source, len(arrivals), least=2)
    return arrivals, lengths, source, began, length


def _check_count(source: str, rows: float, least: int) -> None:
    if not least <= rows <= MAX_ARRIVALS:
        raise NotEnoughData(
            f"{source}: {rows:.0f} rows, expected 2 to {MAX_ARRIVALS}: change --last or --trace"
        )


def _alike_pods(
    cluster: ClusterClient,
    url: str | None,
    world: RecordedWorld,
    lengths: Lengths | None,
    args: argparse.Namespace,
) -> AlikePods:
    subject, text = world.subject, None
    if subject.pool.spec.model.task is Task.TEXT_GENERATION:
        model = _steps(cluster, url, subject, args)
        means = _token_means(cluster, url, subject, args) if lengths is None else None
        text = generation(model, world.arrivals, lengths, means, args.seed)
        service = ServiceModel(model.a, model.d, overhead=model.overhead)
    else:
        service = _service(cluster, url, subject, args, "")
    start = args.start if args.start is not None else subject.pool.status.ready_replicas or 1
    startup = startup_p90(subject, args.startup_p90)
    price = _price(args, subject)
    return AlikePods(service, startup, max(start, 1), devices(subject), price, text)


def _mixed_pods(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace
) -> MixedPods:
    status = {each.name: each for each in subject.pool.status.variants or ()}
    specs = subject.pool.spec.variants or ()
    start = {name: each.ready_replicas for name, each in status.items()}
    if args.start is not None:
        start = in_order(specs, args.start)
    pools = {each.name: _variant_context(cluster, subject, each) for each in specs}
    services = dict[str, ServiceModel]()
    for name, pool in pools.items():
        with suppress(NotEnoughData):
            services[name] = _service(cluster, url, pool, args, name)
    if not services:
        raise NotEnoughData(NO_CURVES)
    prices = {name: _variant_price(args, subject, pools[name], name) for name in services}
    startups = {name: startup_p90(pools[name], args.startup_p90) for name in services}
    variants = tuple(
        PoolVariant(
            each.name,
            services[each.name],
            prices[each.name],
            least=each.min_replicas or 0,
            most=10**6 if each.max_replicas is None else each.max_replicas,
            start_replicas=start.get(each.name, 0),
            cold=cold_starts(startups[each.name]),
        )
        for each in specs
        if each.name in services
    )
    if not any(each.start_replicas for each in variants):
        variants = (replace(variants[0], start_replicas=1), *variants[1:])
    known = [each for name, each in status.items() if name in services]
    cost = subject.pool.status.cost
    return MixedPods(
        variants,
        startups,
        devices={name: devices(pools[name]) for name in services},
        capacities={
            each.name: float(each.rows_per_second_per_replica)
            for each in known
            if each.rows_per_second_per_replica is not None
        },
        caps={each.name: each.cap for each in known if each.cap},
        requested={each.name: each.replicas for each in known},
        left_out=tuple(name for name in pools if name not in services),
        prices_in="" if cost is None else cost.currency or "",
    )


def cold_starts(startup_p90: float) -> ColdStarts:
    """Return lognormal start-ups of which none fails."""
    median = startup_p90 / exp(NORMAL_P90 * STARTUP_SIGMA)
    return ColdStarts(median_seconds=median, sigma=STARTUP_SIGMA, failing_share=0.0)


def _variant_context(
    cluster: ClusterClient, subject: PoolContext, variant: VariantSpec
) -> PoolContext:
    """Return the pool of a variant; one without a status if there is none yet."""
    parent = subject.pool
    name = names.variant_pool(parent.name, variant.name)
    spec = PoolSpec.model_validate(variant_spec(parent, variant, 0))
    pool = replace(parent, name=name, spec=spec, status=PoolStatus())
    with suppress(PoolNotFound):
        live: PoolObject = pool_object(cluster.pool(parent.namespace, name))
        if live.variant_of is not None and live.variant_of.uid == parent.uid:
            pool = live
    return replace(subject, pool=pool)


def _variant_price(
    args: argparse.Namespace, subject: PoolContext, pool: PoolContext, name: str
) -> float | None:
    """Return the price of an hour of a replica of a variant: as requested, else that of the pool's status."""
    given = dict(args.price).get(name)
    status = next((each for each in subject.pool.status.variants or () if each.name == name), None)
    if given is None and status is not None and status.per_replica_hour is not None:
        return float(status.per_replica_hour)
    known = replica_price(pool.pool.status.cost)
    if given is None:
        return None if known is None else float(known.per_hour)
    return float(given)


def _service(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace, name: str
) -> ServiceModel:  # fmt: skip
    """Return the time of a batch; `name` is that of the variant. Raises `NotEnoughData`."""
    given, sums = dict(args.curve).get(name), None
    if url is not None and given is None:
        sums = _sums(cluster, url, subject, args)
    return service_of(subject, given, sums)


def _steps(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace
) -> StepModel:
    """Return the time of a step. Raises `NotEnoughData`."""
    sums = None
    if url is not None and args.steps is None:
        with suppress(PluginError):
            sums = prometheus.step_sums(cluster, url, subject, span(time.time(), args.last))
    return steps_of(args.steps, sums, args.cache_tokens)


def _token_means(
    cluster: ClusterClient, url: str | None, subject: PoolContext, args: argparse.Namespace
) -> tuple[float, float] | None:
    """Return the mean tokens of prompt and answer: as requested, else those of the history; None if it has none."""
    given: tuple[float, float] | None = args.tokens
    if given is None and url is not None:
        with suppress(PluginError):
            given = prometheus.token_means(cluster, url, subject, span(time.time(), args.last))
    return given


def _demand(
    cluster: ClusterClient, url: str, subject: PoolContext, over: TimeRange
) -> DemandHistory:
    """Return the pool's demand over the range.

    Raises:
        NotEnoughData: too much of it is unknown.
        Unreachable: Prometheus is unreachable.
    """
    history = demand(prometheus.read(cluster, url, subject, over).of("demand"), over)
    if history.unknown > MAX_UNKNOWN:
        raise NotEnoughData(
            f"{100 * history.unknown:.0f} % of the demand is unknown to Prometheus, expected at most"
            f" {100 * MAX_UNKNOWN:.0f} %: change --last, or give --trace FILE"
        )
    return history


def _gaps(history: DemandHistory) -> str:
    if not history.unknown:
        return ""
    return f", {100 * history.unknown:.0f} % of it unknown and interpolated"


def _sums(
    cluster: ClusterClient, url: str, subject: PoolContext, args: argparse.Namespace
) -> CurveSums | None:
    try:
        return prometheus.curve_sums(cluster, url, subject, span(time.time(), args.last))
    except PluginError:
        return None


def _price(args: argparse.Namespace, subject: PoolContext) -> ReplicaPrice | None:
    """Return the price of an hour of a replica: as requested, else that of the pool's status."""
    known, given = replica_price(subject.pool.status.cost), dict(args.price).get("")
    if given is None:
        return known
    return ReplicaPrice(given, known.currency if known is not None else "")
