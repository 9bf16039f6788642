"""A SIGTERM that comes while a program starts stops it, as a later one does."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, signal, sys
from penstock_api import stopping

async def run():
    stop = asyncio.Event()
    stopping.on_stop(asyncio.get_running_loop().add_signal_handler, stop.set)
    print(stop.is_set(), flush=True)
    if sys.argv[1] == "late":
        os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(stop.wait(), 60)

stopping.remember()
if sys.argv[1] == "early":
    os.kill(os.getpid(), signal.SIGTERM)
asyncio.run(run())
print("stopped")
"""


@pytest.mark.parametrize(("moment", "at_first"), [("early", "True"), ("late", "False")])
def test_a_sigterm_before_the_event_loop_runs_is_kept(moment: str, at_first: str) -> None:
    command = [sys.executable, "-c", PROGRAM, moment]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
    assert (ended.returncode, ended.stdout.split()) == (0, [at_first, "stopped"]), ended.stderr


@pytest.mark.parametrize("program", ["penstock_batches", "penstock_gateway", "penstock_runtime"])
def test_a_program_keeps_a_sigterm_before_it_imports_the_rest(program: str) -> None:
    script = f"""
import os, runpy, signal, sys
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "{program}.main":
            os.kill(os.getpid(), signal.SIGTERM)
            from penstock_api import stopping
            print(len(stopping._early), flush=True)
            os._exit(0)
sys.meta_path.insert(0, Stop())
sys.argv = ["{program}"]
runpy.run_module("{program}", run_name="__main__")
"""
    environ = {"PENSTOCK_CLUSTER_PORT": "0"}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=90, check=False, env=environ
    )
    assert (ended.returncode, ended.stdout) == (0, "1\n"), ended.stderr
