"""Marked secrets and identifiers in every field of every event, and nowhere behind landing."""
