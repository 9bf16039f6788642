"""`SchemaSkew`: difference between the served CRD and the one that this operator was built with."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchemaSkew:
    """Difference between the served CRD and the one this operator was built with, as topmost field paths."""

    lacking: frozenset[str] = frozenset()
    """Fields that an older served CRD lacks."""
    unknown: frozenset[str] = frozenset()
    """Fields of a newer served CRD that this operator does not know."""

    def sentence(self) -> str:
        """Return the difference and the remedy; empty if there is none."""
        parts = []
        if self.lacking:
            lacking = f"lacks {_listed(self.lacking)}, which this operator's version has"
            parts.append(f"{lacking}: upgrade the CRDs (helm upgrade, or kubectl apply -f crds/)")
        if self.unknown:
            unknown = f"has {_listed(self.unknown)}, which this operator does not know"
            parts.append(f"{unknown}: upgrade the operator")
        return "; and it ".join(parts)


AS_BUILT = SchemaSkew()


def _listed(paths: frozenset[str]) -> str:
    shown = sorted(paths)
    more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
    return ", ".join(shown[:5]) + more
