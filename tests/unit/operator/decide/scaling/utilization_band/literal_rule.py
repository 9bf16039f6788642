"""The rule to the letter: "utilisation over 90 %: smaller batch; under 70 %: larger". A baseline for tests only.

It is here to show why the first law is not this rule; it is no field of any pool, and never will be.
"""

from dataclasses import dataclass, field

from penstock_operator.decide.scaling.law import Decision, LawInput
from penstock_operator.decide.scaling.utilization_band.batch_cap import clamp_cap, step_size
from penstock_operator.decide.scaling.utilization_band.law import BandState, UtilizationBand


@dataclass
class LiteralRule:
    """As the first law, but duty alone moves the cap."""

    name: str = "LiteralRule"
    guarded: UtilizationBand = field(default_factory=UtilizationBand)

    def initial(self, now: float) -> BandState:
        """Return the guarded law's state: signals are kept the same way."""
        return self.guarded.initial(now)

    def step(self, state: BandState, observed: LawInput, now: float) -> tuple[BandState, Decision]:
        """Return the guarded decision, its cap replaced by the letter of the rule."""
        state, decision = self.guarded.step(state, observed, now)
        cap, duty = observed.cap, decision.observations.duty
        if cap is None or duty is None or now - state.history.cap_since < 30:
            return state, decision._replace(cap=cap or decision.cap)
        if duty > observed.settings.high_percent / 100:
            cap -= step_size(cap)
        elif duty < observed.settings.low_percent / 100:
            cap += step_size(cap)
        return state, decision._replace(cap=clamp_cap(cap, observed.settings))
