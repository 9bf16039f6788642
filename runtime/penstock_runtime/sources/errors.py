"""Errors of a model download; each class is a reason of the pool's condition.

ModelLoadFailed
├── ModelAccessDenied       no credentials, or insufficient ones
├── ModelNotFound           no such repository, revision, bucket or file
├── ModelSourceUnreachable  no answer, or a temporary error
├── ModelCorrupt            the content does not match its digest
└── CacheFull               the cache has no room for the model
"""

from penstock_runtime.engine.model import ModelLoadFailed


class ModelAccessDenied(ModelLoadFailed):
    """No credentials, or credentials without access to the model."""

    reason = "ModelAccessDenied"


class ModelNotFound(ModelLoadFailed):
    """No such repository, revision, bucket, folder or file."""

    reason = "ModelNotFound"


class ModelSourceUnreachable(ModelLoadFailed):
    """No answer, or a temporary error; raised after retries."""

    reason = "ModelSourceUnreachable"


class ModelCorrupt(ModelLoadFailed):
    """The content does not match its digest and was discarded."""

    reason = "ModelCorrupt"


class CacheFull(ModelLoadFailed):
    """The cache has no room for the model."""

    reason = "CacheFull"
