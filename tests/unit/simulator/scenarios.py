"""Small worlds for the tests of the simulator."""

from dataclasses import replace

from penstock_operator.decide.spec.law_settings import LawSettings
from penstock_simulator.batch_time import ServiceModel
from penstock_simulator.scenario import ClientBehavior, ColdStarts, Loss, Routing, Scenario

EXACT = ServiceModel(a=0.1, c=0.01, sigma=0.0, tail_share=0.0, overhead=0.0)
SURE = ColdStarts(median_seconds=60.0, sigma=0.0, failing_share=0.0)
SETTINGS = LawSettings(
    objective_milliseconds=1000,
    size_min=1,
    size_max=32,
    max_queue_delay_milliseconds=0,
    min_replicas=1,
    max_replicas=64,
    low_percent=50,
    high_percent=90,
    target_per_replica=4,
    stabilization_seconds=60,
    max_percent_per_minute=25,
)


def world(
    start: int = 1,
    service: ServiceModel = EXACT,
    settings: LawSettings = SETTINGS,
    routing: Routing = Routing.CONNECTION,
    **more: object,
) -> Scenario:
    """Return a world without chance in service and starts, and no warm-up."""
    scenario = Scenario(
        service=service,
        settings=settings,
        start_replicas=start,
        routing=routing,
        cold=SURE,
        clients=ClientBehavior(timeout_seconds=1e9),
        loss=Loss(),
        warm_up_seconds=0.0,
        max_queue_depth=10**9,
    )
    return replace(scenario, **more)  # type: ignore[arg-type]


def capped(cap: int) -> LawSettings:
    """Return settings whose envelope ends at `cap`."""
    return replace(SETTINGS, size_max=cap)
