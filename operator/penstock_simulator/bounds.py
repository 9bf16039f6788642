"""What no law can beat. Pure."""

from penstock_simulator.scenario import Scenario

ATTAINED = 0.99
HOUR = 3600.0


def fluid_gpu_hours(scenario: Scenario, requests: int) -> float:
    """Return the GPU-hours that 99 % of `requests` take if every batch is full and no replica ever waits."""
    service, top = scenario.service, scenario.settings.size_max
    return ATTAINED * requests * (service.a / top + service.c) / HOUR
