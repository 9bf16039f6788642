"""The desired status of pools and policies: fields, conditions and Events."""
