"""Why a model could not be fetched; each class is a reason of the pool's condition.

ModelLoadFailed
├── ModelAccessDenied       no credentials, or none that are allowed to
├── ModelNotFound           no such repository, revision, bucket or file
├── ModelSourceUnreachable  no answer, or an answer that a later try may mend
├── ModelCorrupt            what came is not what was promised
└── CacheFull               the cache has no room for it
"""

from penstock_runtime.engine.model import ModelLoadFailed


class ModelAccessDenied(ModelLoadFailed):
    """No credentials, or none that are allowed to read the model."""

    reason = "ModelAccessDenied"


class ModelNotFound(ModelLoadFailed):
    """There is no such repository, revision, bucket, folder or file."""

    reason = "ModelNotFound"


class ModelSourceUnreachable(ModelLoadFailed):
    """No answer, or one that a later try may mend; tried again before it is told."""

    reason = "ModelSourceUnreachable"


class ModelCorrupt(ModelLoadFailed):
    """What came is not what was promised; it was thrown away."""

    reason = "ModelCorrupt"


class CacheFull(ModelLoadFailed):
    """The cache has no room for the model."""

    reason = "CacheFull"
