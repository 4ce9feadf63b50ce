"""Exports: training sets made from one version of the training zone, with a manifest that makes them again.

Stage: behind the training zone. Reads: trajectories at a version. Writes: a folder of data files and a manifest.
May import: every other package.
"""
