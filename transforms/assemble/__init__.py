"""Assembly: the fold that turns a partition's events, in log order, into steps, runs and rewards.

Stage: behind the gate. Reads: typed events and the state of a partition. Writes: rows, and the state after them.
May import: expectations, transforms.decode and transforms.classify. `fold` is where to start reading.
"""
