"""Policy: which terms hold for a run or record, and whether they let it serve a purpose.

Stage: gate of the land path, and publication. Reads: policies, facts, consents and the time, all given to it.
Writes: verdicts. May import: expectations and other modules of transforms.
"""
