"""What kopf would keep of each object to find what changed: nothing, for every pass looks at all there is.

kopf's own storages copy each object of each event three times over to compare it with the one before, for handlers of
changes, of which we have none: an eighth of all CPU while 1,000 pools start (measured). These copy nothing, and write nothing.
"""

from collections.abc import Iterable

import kopf
from kopf._cogs.configs.progress import (
    ProgressRecord,  # kopf's own top level does not name the type
)
from kopf._cogs.structs.dicts import FieldSpec  # likewise


class NoEssence(kopf.DiffBaseStorage):
    """Every object is like any other."""

    def build(
        self, *, body: kopf.Body, extra_fields: Iterable[FieldSpec] | None = None
    ) -> kopf.BodyEssence:
        """Return what is compared: nothing."""
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> None:
        """Return what was kept: nothing."""
        del body

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Keep nothing."""


class NoProgress(kopf.ProgressStorage):
    """No handler is ever under way."""

    def fetch(self, *, key: kopf.HandlerId, body: kopf.Body) -> None:
        """Return how far a handler has come: none has begun."""
        del key, body

    def store(
        self, *, key: kopf.HandlerId, record: ProgressRecord, body: kopf.Body, patch: kopf.Patch
    ) -> None:
        """Keep nothing."""

    def purge(self, *, key: kopf.HandlerId, body: kopf.Body, patch: kopf.Patch) -> None:
        """Forget what was never kept."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Write nothing."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Return what is left without progress: all of it, itself."""
        return essence
