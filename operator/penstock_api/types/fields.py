"""Building blocks of the API types: bounded strings, quantities, CEL rules and list types.

The message of a rule (`messageExpression`) is CEL too, and names field, value and remedy.
"""

import decimal
import re
from typing import Annotated, Any, Final

from pydantic import Field

_LABEL_WORD = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
DNS_LABEL = f"^{_LABEL_WORD}$"
DNS_SUBDOMAIN = rf"^{_LABEL_WORD}(\.{_LABEL_WORD})*$"
LABEL_KEY = rf"^({_LABEL_WORD}(\.{_LABEL_WORD})*/)?{_QUALIFIED_NAME}$"
LABEL_VALUE = f"^({_QUALIFIED_NAME})?$"
QUANTITY = r"^([0-9]+(\.[0-9]{0,9})?|\.[0-9]{1,9})([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]{1,2})?$"

RESERVED_KEY_PREFIXES = ("penstock.dev/", "app.kubernetes.io/", "leaderworkerset.sigs.k8s.io/")


def rule(expression: str, message: str, *values: str, at: str = "") -> dict[str, Any]:
    """Return a CEL rule with its `message`, in which each `%s` is replaced by one of `values` (CEL expressions).

    `at` is the path, relative to the schema of the rule, of the field in the error. The outermost `format` bounds the
    estimated cost, which concatenation of `string(int)` or `join` would not.
    """
    shown = ", ".join(f"dyn({value})" for value in values)
    text = "'" + message.replace("'", r"\'") + "'"  # an apostrophe would end the CEL string
    formatted = f"{text}.format([{shown}])" if values else text
    path = {"fieldPath": at} if at else {}
    return {"rule": expression, "messageExpression": formatted, **path}


def rules(*each: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON-schema extra with CEL rules."""
    return {"x-kubernetes-validations": list(each)}


def list_map(*keys: str) -> dict[str, Any]:
    """Return the JSON-schema extra of a list merged by key."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC_LIST = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}
"""Extra of structures that core/v1 and meta/v1 replace as a whole: selectors and references."""
SET_LIST = {"x-kubernetes-list-type": "set"}

_GOOD_KEY = f"k.indexOf('/') <= 253 && k.matches(r'{LABEL_KEY}')"
KEYS_RULE = rule(
    f"self.all(k, {_GOOD_KEY})",
    "keys %s are not label keys: use name or prefix/name, where prefix is a DNS name and name has at most"
    " 63 letters, digits, dashes, dots and underscores",
    f"self.filter(k, !({_GOOD_KEY}))",
)
_RESERVED_KEY = " || ".join(f"k.startsWith('{prefix}')" for prefix in RESERVED_KEY_PREFIXES)
OWN_KEYS_RULE = rule(
    f"!self.exists(k, {_RESERVED_KEY})",
    f"keys %s are reserved: use keys that do not begin with {' or '.join(RESERVED_KEY_PREFIXES)}",
    f"self.filter(k, {_RESERVED_KEY})",
)

Name = Annotated[str, Field(min_length=1, max_length=253, pattern=DNS_SUBDOMAIN)]
Label = Annotated[str, Field(min_length=1, max_length=63, pattern=DNS_LABEL)]
LabelKey = Annotated[str, Field(min_length=1, max_length=317, pattern=LABEL_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=LABEL_VALUE)]
MAX_LABELS = 32
LabelMap = Annotated[
    dict[str, LabelValue], Field(max_length=MAX_LABELS, json_schema_extra=rules(KEYS_RULE))
]
OwnLabelMap = Annotated[
    dict[str, LabelValue], Field(max_length=32, json_schema_extra=rules(KEYS_RULE, OWN_KEYS_RULE))
]
AnnotationMap = Annotated[
    dict[str, Annotated[str, Field(max_length=1024)]],
    Field(max_length=32, json_schema_extra=rules(KEYS_RULE, OWN_KEYS_RULE)),
]
Cidr = Annotated[
    str,
    Field(
        min_length=3,
        max_length=64,
        json_schema_extra=rules(
            rule(
                "isCIDR(self) && cidr(self) == cidr(self).masked()",
                "network %s is not a CIDR without host bits: write it as 10.0.0.0/8 or fd00::/8",
                "self",
            )
        ),
    ),
]
Image = Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s]+$")]
_QUANTITY_EXTRA: dict[str, Any] = {
    "x-kubernetes-int-or-string": True,
    "pattern": QUANTITY,
    "maxLength": 32,
    "minimum": 0,
}
Quantity = Annotated[int | str, Field(json_schema_extra=_QUANTITY_EXTRA)]
"""As apimachinery's resource.Quantity, never negative."""


def quantity(field: str, minimum: str, maximum: str) -> Any:
    """Return the schema of a quantity of bytes from `minimum` to `maximum`; `field` is its name in the message."""

    def compared(limit: str) -> str:
        return f"quantity(string(self)).compareTo(quantity('{limit}'))"

    bounds = rule(
        f"{compared(minimum)} >= 0 && {compared(maximum)} <= 0",
        f"{field} %s is not a size from {minimum} to {maximum}: use a number of bytes, or a unit such as Mi or Gi",
        "self",
    )
    return Field(json_schema_extra={**_QUANTITY_EXTRA, **rules(bounds)})


Count = Annotated[int, Field(ge=0, lt=2**31)]
ShortText = Annotated[str, Field(max_length=512)]
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]
"""A CamelCase word in a status. No enum, so that an older client or CRD accepts the words of a newer operator."""
Decimal = Annotated[str, Field(max_length=32, pattern=r"^-?[0-9]+(\.[0-9]+)?$")]
"""A non-integer in a status, as a decimal string."""
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]

MAX_REPLICAS = 1000
Replicas = Annotated[int, Field(ge=1, le=MAX_REPLICAS)]
Percent = Annotated[int, Field(ge=1, le=100)]
Weight = Annotated[int, Field(ge=1, le=10_000)]

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


def amount(quantity: int | str) -> decimal.Decimal:
    """Return a quantity as an exact number: 500m is 0.5, 1Gi is 2**30.

    Raises:
        ValueError: `quantity` is invalid.
    """
    match = _QUANTITY.match(str(quantity))
    if match is None:
        raise ValueError(f"invalid quantity '{quantity}': expected a number with a unit such as Gi")
    number, binary, unit, exponent = match.groups()
    if binary:
        return decimal.Decimal(number) * _BINARY[binary]
    return decimal.Decimal(number).scaleb(_DECIMAL[unit] if unit else int(exponent or 0))
