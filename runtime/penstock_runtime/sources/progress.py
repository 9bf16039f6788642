"""`DownloadProgress`: progress of a load, written by the download threads, read by the event loop."""

import threading

from penstock_api.pod_contract import Loading, LoadStage


class DownloadProgress:
    """Stage of a load, cached bytes of the model, and its size."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading = Loading(stage=LoadStage.STARTING)

    def read(self) -> Loading:
        """Return the current progress."""
        return self._loading

    def enter(self, stage: LoadStage) -> None:
        """Set the stage; the byte counts remain."""
        self._change(stage=stage)

    def begin(self, total_bytes: int) -> None:
        """Start a download of `total_bytes`."""
        self._change(stage=LoadStage.FETCHING, loaded_bytes=0, total_bytes=total_bytes)

    def add(self, some_bytes: int) -> None:
        """Add bytes to the cached count; negative: bytes were discarded."""
        with self._lock:
            loaded = max(0, self._loading.loaded_bytes + some_bytes)
            self._loading = self._loading.model_copy(update={"loaded_bytes": loaded})

    def follow(self, other: Loading) -> None:
        """Show the progress of another pod that downloads into the same cache."""
        self._change(
            stage=LoadStage.WAITING,
            loaded_bytes=other.loaded_bytes,
            total_bytes=other.total_bytes,
        )

    def _change(self, **update: object) -> None:
        with self._lock:
            self._loading = self._loading.model_copy(update=update)
