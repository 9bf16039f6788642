"""Rollback of edits that lower attainment: the settings before stay in force, and no object of a user changes."""
