"""What decisions need to know of the operator's own configuration."""

from dataclasses import dataclass

from penstock_api.container import ImagePullPolicy


@dataclass(frozen=True, slots=True)
class DecideConfig:
    """Given by the administrator through the chart; never by a pool."""

    default_runtime_image: str
    """Pinned into the template of a pool that names no image, at its first render."""
    image_pull_policy: ImagePullPolicy | None = None
    """For pools that say none; None leaves it to the API server's default."""
