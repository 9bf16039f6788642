"""The cluster under test, and the kubectl and helm commands for it."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.cluster.places import Places
from tests.support.kube.api import Api


class ProgramFailedError(RuntimeError):
    """kubectl or helm failed; the message is its output."""


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster under test: the project's own, or the one that KUBE_CONTEXT names."""

    kubeconfig: str | None
    context: str | None
    programs: Path

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> "Target":
        """Read KUBE_CONTEXT; if set, the user's kubeconfig applies, else the test cluster's."""
        places = Places.from_env(environ)
        context = environ.get("KUBE_CONTEXT") or None
        return cls(None if context else str(places.kubeconfig), context, places.commands)

    @property
    def foreign(self) -> bool:
        """Return whether this is a user's cluster, whose Services this machine may not reach."""
        return self.context is not None

    def api(self) -> Api:
        """Return a connection to the API server."""
        return Api(self.kubeconfig, self.context)

    def kubectl_command(self) -> tuple[str, ...]:
        """Return kubectl with its connection flags."""
        flags = (
            ("--context", self.context) if self.context else ("--kubeconfig", f"{self.kubeconfig}")
        )
        return (self._program("kubectl"), *flags)

    def kubectl(self, *arguments: str | Path, stdin: str | None = None) -> str:
        """Run kubectl and return its stdout."""
        return _run((*self.kubectl_command(), *map(str, arguments)), stdin)

    def helm(self, *arguments: str | Path) -> str:
        """Run helm and return its stdout."""
        context = ("--kube-context", self.context) if self.context else ()
        file = ("--kubeconfig", self.kubeconfig) if self.kubeconfig else ()
        return _run((self._program("helm"), *context, *file, *map(str, arguments)), None)

    def _program(self, name: str) -> str:
        built = self.programs / name
        return str(built) if built.exists() else shutil.which(name) or name


def _run(words: tuple[str, ...], stdin: str | None) -> str:
    done = subprocess.run(
        words, input=stdin, capture_output=True, text=True, check=False, timeout=300
    )
    if done.returncode:
        message = (done.stderr or done.stdout).strip()[-3000:]
        raise ProgramFailedError(f"{' '.join(words)[:300]}: exit {done.returncode}: {message}")
    return done.stdout
