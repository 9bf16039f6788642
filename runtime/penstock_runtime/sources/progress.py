"""How far a load has come: written by the threads that fetch, read by the event loop."""

import threading

from penstock_api.limits import Loading, LoadStage


class DownloadProgress:
    """Bytes of the model that are in the cache, of all that it has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading = Loading(stage=LoadStage.STARTING)

    def read(self) -> Loading:
        """Return the load as it stands."""
        return self._loading

    def enter(self, stage: LoadStage) -> None:
        """Begin a stage; the bytes stay."""
        self._change(stage=stage)

    def begin(self, total_bytes: int) -> None:
        """Begin to fetch so many bytes."""
        self._change(stage=LoadStage.FETCHING, loaded_bytes=0, total_bytes=total_bytes)

    def add(self, some_bytes: int) -> None:
        """Count bytes that are in the cache; negative ones had to be thrown away."""
        with self._lock:
            loaded = max(0, self._loading.loaded_bytes + some_bytes)
            self._loading = self._loading.model_copy(update={"loaded_bytes": loaded})

    def follow(self, another: Loading) -> None:
        """Show what another pod that fetches into the same cache has told."""
        told = {"loaded_bytes": another.loaded_bytes, "total_bytes": another.total_bytes}
        self._change(stage=LoadStage.WAITING, **told)

    def _change(self, **update: object) -> None:
        with self._lock:
            self._loading = self._loading.model_copy(update=update)
