"""`amount` and `byte_count`: parse quantities in the format of apimachinery's resource.Quantity."""

import re
from decimal import Decimal
from typing import Final

_QUANTITY = re.compile(r"^([0-9.]+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([-+]?[0-9]+))?$")
_BINARY: Final[dict[str, int]] = {
    unit + "i": 1024**power for power, unit in enumerate("KMGTPE", start=1)
}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def byte_count(quantity: int | str) -> int:
    """Return a quantity in whole bytes: 1Gi is 2**30, 1G is 10**9, 2e3 is 2000.

    Raises:
        ValueError: `quantity` is invalid.
    """
    return int(amount(quantity))


def amount(quantity: int | str) -> Decimal:
    """Return a quantity as an exact number: 500m is 0.5, 1Gi is 2**30.

    Raises:
        ValueError: `quantity` is invalid.
    """
    match = _QUANTITY.match(str(quantity))
    if match is None:
        raise ValueError(f"invalid quantity '{quantity}': expected a number with a unit such as Gi")
    number, binary, unit, exponent = match.groups()
    if binary:
        return Decimal(number) * _BINARY[binary]
    return Decimal(number).scaleb(_DECIMAL[unit] if unit else int(exponent or 0))
