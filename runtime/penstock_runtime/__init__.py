"""Runtime of a pool's pods. A request passes through protocols -> serving -> engine -> models."""
