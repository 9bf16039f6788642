"""The child's side of `engine/link/process`: `python -m penstock_runtime.engine.link.generation_child SOCKET MEMORY`.

Two threads: the engine's, which plans, runs and tells; and a listener, which unpacks what comes, so that no step
waits for that.
"""

import sys
import threading
import time
from typing import Any

from penstock_runtime.engine.continuous.loop import LoopPorts, serve
from penstock_runtime.engine.continuous.messages import Stepped
from penstock_runtime.engine.link.child import Child, run_child
from penstock_runtime.engine.link.generation_setup import OpenedEngine, open_engine
from penstock_runtime.engine.link.handshake import Loaded, NotLoaded, StartGeneration
from penstock_runtime.engine.link.inbox import ThreadInbox
from penstock_runtime.engine.machine import spare_the_collector
from penstock_runtime.engine.messages import EngineDied
from penstock_runtime.engine.model import ModelLoadFailed, describe


class GenerationChild(Child):
    """One generation engine's life in this process."""

    def live(self) -> int:
        """As `Child.live`."""
        begin: Any = (self.inbox.receive(None) or (None,))[0]
        if not isinstance(begin, StartGeneration):
            return 1
        try:
            opened = open_engine(begin.load, begin.limits, begin.depth)
        except ModelLoadFailed as error:
            return self.last_word(NotLoaded(str(error)))
        except BaseException as error:  # noqa: BLE001  whatever a loader raises is a model that did not load
            return self.last_word(NotLoaded(f"the model did not load: {describe(error)}"))
        spare_the_collector()
        self.post(Stepped((), None, opened.engine.report()))
        self.post(Loaded(opened.info))
        return self._serve(opened)

    def _serve(self, opened: OpenedEngine) -> int:
        inbox = ThreadInbox(time.monotonic)
        listener = threading.Thread(target=self._listen, args=(inbox,), daemon=True)
        listener.start()
        outside = LoopPorts(self.post, self.pulse, time.monotonic)
        try:
            serve(opened.engine, opened.runner, inbox, outside)
        except BaseException as error:  # noqa: BLE001  whatever ends the engine, the HTTP side must know
            return self.last_word(EngineDied(describe(error)))
        return 0

    def _listen(self, inbox: ThreadInbox) -> None:
        try:
            while (messages := self.inbox.receive(None)) is not None:
                inbox.send(*messages)
        finally:
            inbox.close()


if __name__ == "__main__":
    sys.exit(run_child(GenerationChild, int(sys.argv[1]), int(sys.argv[2])))
