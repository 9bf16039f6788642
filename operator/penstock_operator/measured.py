"""The range of measured values, and values of pods outside it, which count as absent."""

MEASURED_MIN, MEASURED_MAX = 1e-30, 1e15
"""Range of a nonzero queue length, counter or duration, so that its squares, fourth powers and ratios stay finite."""


def is_measured(value: float) -> bool:
    """Return whether a value is a measurement: 0, or between MEASURED_MIN and MEASURED_MAX; NaN is not."""
    return value == 0 or MEASURED_MIN <= value <= MEASURED_MAX


def measured(value: float | None) -> float | None:
    """Return `value` if it is a measurement, otherwise None (absent)."""
    return value if value is not None and is_measured(value) else None
