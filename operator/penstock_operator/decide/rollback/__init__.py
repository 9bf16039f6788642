"""Rollback of edits that lower attainment: the previous settings stay in force, and no user object changes."""
