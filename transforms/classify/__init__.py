"""Says what a failed step or a closed run means: outcome class, failure kind, and the rule that decided.

Stage: within assembly, as steps and runs close. Reads: evidence, and the rule table of `expectations`.
Writes: findings.
May import: expectations.
"""
