"""Programs out of Debian's packages, and the libraries that come with them."""

import subprocess

from tests.support.batches.redis_server import program
from tests.support.cluster.packages.packaged import libraries_of

DEPENDS = "adduser, libatomic1 (>= 4.8), libc6 (>= 2.34), libsystemd0 | libelogind0, liblua5.1-0:any, lua-cjson"


def test_libraries_are_the_first_of_alternatives_and_no_other_packages() -> None:
    wanted = ("libatomic1", "libc6", "libsystemd0", "liblua5.1-0", "lua-cjson")
    assert libraries_of(DEPENDS) == wanted
    assert libraries_of("") == ()


def test_the_fetched_redis_runs_with_the_libraries_that_it_needs() -> None:
    said = subprocess.run([program(), "--version"], capture_output=True, text=True, check=True)
    assert said.stdout.startswith("Redis server v=")
