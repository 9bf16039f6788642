"""What can go wrong for somebody at a terminal: each message names what, and what to do."""


class PluginError(Exception):
    """Its message is all that helps; there is no trace to show."""


class PoolNotFound(PluginError):
    """The API server has no such object."""


class Unreachable(PluginError):
    """The API server, or Prometheus, does not answer as it should."""


class NotEnoughData(PluginError):
    """There is too little to work with, or it does not fit together."""
