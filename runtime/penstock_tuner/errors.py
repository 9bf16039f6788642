"""Errors of the tuner; each message names what is missing and the remedy."""


class TunerError(Exception):
    """Base class; the message is shown to the user without a traceback."""


class PodFailed(TunerError):
    """The measured pod did not start, or it died."""


class PodRejected(PodFailed):
    """The measured pod rejects settings; it still serves."""


class NoRequest(TunerError):
    """A request cannot be derived from the model's metadata, or the pod rejects those of the load."""


class NoObjective(TunerError):
    """No latency that counts as on time is given, or one that the model does not have."""


class WrongOption(TunerError):
    """An option has a value that no pod of the model takes."""


class NoTrial(TunerError):
    """The time of the study is spent, and none of its trials has ended."""
