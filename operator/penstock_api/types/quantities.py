"""Quantities of bytes, as apimachinery's resource.Quantity spells them."""

import re
from decimal import Decimal
from typing import Final

_SPELLED = re.compile(r"^([0-9.]+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([-+]?[0-9]+))?$")
_BINARY: Final = {unit + "i": 1024**power for power, unit in enumerate("KMGTPE", start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


def byte_count(quantity: int | str) -> int:
    """Return how many whole bytes a quantity is: 1Gi is 2**30, 1G is 10**9, 2e3 is 2000.

    Raises:
        ValueError: it is no quantity.
    """
    found = _SPELLED.match(str(quantity))
    if found is None:
        raise ValueError(f"'{quantity}' is no quantity: write a number with a unit such as Gi")
    number, binary, unit, exponent = found.groups()
    if binary:
        return int(Decimal(number) * _BINARY[binary])
    return int(Decimal(number).scaleb(_DECIMAL[unit] if unit else int(exponent or 0)))
