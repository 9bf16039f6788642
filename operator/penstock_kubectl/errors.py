"""Errors of the plugin; each message names the problem and the remedy."""


class PluginError(Exception):
    """Base class; the message is shown to the user without a traceback."""


class PoolNotFound(PluginError):
    """The API server has no such object."""


class MayNotRead(PluginError):
    """The user has no permission to read an object."""


class Unreachable(PluginError):
    """The API server or Prometheus is unreachable or returns an invalid response."""


class NotEnoughData(PluginError):
    """Data is missing or inconsistent."""


class NameTaken(PluginError):
    """An object of another owner has the name of one that the plugin writes."""


class WriteRejected(PluginError):
    """The API server rejects a write: a missing permission, a quota, or a value that is not valid."""
