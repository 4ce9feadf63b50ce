"""Declares what must hold: event and table contract, reason codes, failure taxonomy and rules, the error tree.

Stage: before everything; the flow is checked against it. Reads: nothing. Writes: nothing.
May import: nothing of trajlake.
"""
