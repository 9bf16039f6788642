"""Git commits of a bench run: that of the working tree, and the one that froze the law's defaults."""

import subprocess
from dataclasses import dataclass

from tests.bench.control import store

UNKNOWN = "unknown"
DIGITS = 12


@dataclass(frozen=True, slots=True)
class Frozen:
    """The last commit that changed the law, which also froze its defaults."""

    commit: str
    date: str
    """ISO 8601."""
    changed: tuple[str, ...]
    """Files of the law that differ in the working tree."""

    def sentence(self) -> str:
        """Return the sentence for a report."""
        if self.commit == UNKNOWN:
            return "defaults are NOT frozen: no commit found"
        text = f"defaults frozen at {self.commit} of {self.date}"
        if not self.changed:
            return text
        return (
            f"{text}, and NOT frozen since: the working tree differs in {', '.join(self.changed)}"
        )


def head() -> str:
    """Return the commit of the working tree, with the suffix `-dirty` if files differ."""
    return _git("describe", "--always", "--dirty", f"--abbrev={DIGITS}") or UNKNOWN


def frozen() -> Frozen:
    """Return the commit that froze the defaults, and what differs from it."""
    commit, _, date = _law("log", "-1", f"--abbrev={DIGITS}", "--format=%h %cI").partition(" ")
    changed = _law("status", "--porcelain", "--untracked-files=all", "--no-renames").splitlines()
    return Frozen(commit or UNKNOWN, date, tuple(line.split()[-1] for line in changed))


def _law(*command: str) -> str:
    return _git(*command, "--", *store.OWN_LAWS)


def _git(*command: str) -> str:
    done = subprocess.run(("git", *command), capture_output=True, text=True, check=False)
    return done.stdout.strip()
