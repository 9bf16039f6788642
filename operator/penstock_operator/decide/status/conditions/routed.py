"""The Routed condition: whether requests reach the pods through the namespace's gateway."""

from collections.abc import Iterator

from penstock_api.conditions import Condition, ConditionStatus, condition
from penstock_operator.decide.gateway import GatewayPlan
from penstock_operator.decide.route import RouteStep
from penstock_operator.observed import GatewayView

ROUTED = "Routed"
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE


def routed(plan: GatewayPlan, gateway: GatewayView) -> Iterator[Condition]:
    """Yield the condition of a pool in mode Gateway, and of a pool that has just left it."""
    step, problem = plan.route.step, gateway.problem
    if not plan.wanted:
        if step is RouteStep.LEAVING:
            message = "clients reach the pods directly; the gateway's listener closes shortly"
            yield condition(ROUTED, FALSE, "Leaving", message)
        return
    if plan.obstacle:
        how = (
            "the gateway keeps the last route"
            if step is RouteStep.ROUTED
            else "clients reach the pods directly"
        )
        yield condition(ROUTED, FALSE, "GatewayUnavailable", f"{plan.obstacle}; {how}")
    elif step is plan.live.step is RouteStep.ROUTED:
        if problem:
            message = f"requests go through the gateway, but {problem}; the last valid configuration stays in force"
            yield condition(ROUTED, TRUE, "GatewayDegraded", message)
        else:
            message = f"{gateway.pods} gateway pods spread the requests, on port {plan.route.port}"
            yield condition(ROUTED, TRUE, "ThroughGateway", message)
    else:
        why = problem or "no pod of the gateway is ready yet"
        message = f"clients reach the pods directly until the gateway listens: {why}"
        if step is RouteStep.ROUTED:
            message = (
                "the gateway listens; clients reach the pods directly until the Service selects it"
            )
        yield condition(ROUTED, FALSE, "GatewayNotReady", message)
