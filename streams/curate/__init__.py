"""Curation: takes closed runs from the restricted zone, has them judged, and publishes what passes.

Stage: between the tables that land and the training zone. Reads: runs, steps, rewards, consents, policies, suites.
Writes: curation, publications and trajectories, through sinks, and the reports beside them.
May import: expectations, transforms, sinks, and other packages of streams.
"""
