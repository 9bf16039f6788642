"""`python -m tests.gpu.exhausted_pod`: the runtime, of which one step requests more memory than its device has.

It is the next step after the file that `TRIGGER` names exists, and it removes the file. The engine must be in a thread.
"""

import os
from pathlib import Path

import torch

from penstock_runtime import main as runtime
from penstock_runtime.engine.continuous.steps.step_plan import StepPlan
from penstock_runtime.models.decoders.kv_store import KvStore

TRIGGER = "GPU_RUN_OUT_OF_MEMORY_FILE"
IMPOSSIBLE_BYTES = 1 << 50


def main() -> None:
    """Run the pod."""
    move, trigger = KvStore.move, Path(os.environ[TRIGGER])

    def move_or_exhaust(self: KvStore, plan: StepPlan) -> None:
        if trigger.exists():
            trigger.unlink()
            torch.empty(IMPOSSIBLE_BYTES, dtype=torch.uint8, device=self.layers[0].device)
        move(self, plan)

    KvStore.move = move_or_exhaust  # type: ignore[method-assign]
    runtime.main()


if __name__ == "__main__":
    main()
