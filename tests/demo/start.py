"""`make demo`: prepares the machine, starts the cluster, and hands over to the show; standard library only.

All that is missing is downloaded and built at once. With KUBE_CONTEXT the show runs on that cluster,
with `ON=kind` on one in Docker.
"""

import os
import sys
from typing import NoReturn

from tests.demo.steps import about, announce
from tests.support.cluster import foreign, kind, life, preparation, progress
from tests.support.cluster.__main__ import EXPECTED_ERRORS
from tests.support.cluster.images import make
from tests.support.cluster.packages import virtualenv
from tests.support.cluster.places import CHECKOUT, Places
from tests.support.cluster.progress import say

SHOW_MINUTES = 6


def main() -> None:
    """Run all steps before the show, then become the show; exit with 1 if one of them fails."""
    progress.share_clock()
    places = Places.from_env()
    try:
        prepare(places)
    except (*EXPECTED_ERRORS, preparation.NotEnoughError, kind.KindUnusableError) as error:
        sys.exit(f"error: {error}")
    _become_show()


def _become_show() -> NoReturn:
    python = virtualenv.FOLDER / "bin" / "python"
    os.chdir(CHECKOUT)
    os.execv(python, [str(python), "-m", "tests.demo"])  # noqa: S606 - our own interpreter


def prepare(places: Places) -> None:
    """Check the machine, make what is missing, and start the cluster with the images."""
    virtualenv.check_python(sys.version_info[:2])
    if kind.chosen():
        kind.check()
    missing = preparation.needs(places)
    seconds = preparation.seconds(missing)
    announce("check", seconds)
    for line in bill(missing):
        say(line)
    preparation.check(places, missing)
    announce("make", seconds)
    preparation.prepare(places)
    announce("cluster")
    if kind.chosen():
        os.environ.update(kind.up(places))
    elif context := foreign.chosen_context():
        foreign.check(places, context)
    else:
        life.up(places)
        make.make_images(places)


def bill(missing: list[preparation.Need]) -> list[str]:
    """Return what the demo will take on this machine: parts, time, disk and memory."""
    parts = [f"missing: {need.name}" for need in missing] or ["all is built: nothing is downloaded"]
    peak = preparation.peak_gigabytes(missing)
    kept = preparation.kept_gigabytes(missing)
    making = about(preparation.seconds(missing))
    time = (
        f"the time: {making} to make them on {os.cpu_count()} cores, then about {SHOW_MINUTES} min"
    )
    disk = f"the disk: {peak:.0f} GB at most, of which {kept:.0f} GB stay until `make clean-cache`"
    return [*parts, time, disk, f"the memory: {preparation.MEMORY_GIGABYTES:.0f} GB"]


if __name__ == "__main__":
    main()
