"""What can go wrong for somebody at a terminal: each message names what, and what to do."""


class Trouble(Exception):
    """Its message is all that helps; there is no trace to show."""


class NotFound(Trouble):
    """The API server has no such object."""


class Unreachable(Trouble):
    """The API server, or Prometheus, does not answer as it should."""


class Unfit(Trouble):
    """There is too little to work with, or it does not fit together."""
