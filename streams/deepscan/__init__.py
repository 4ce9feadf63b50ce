"""The deep scan: Presidio's recognizers over the whole text of a run that is about to be published.

Stage: within curation, behind the policies' verdict; only where a policy asks for it. Reads: texts of runs. Writes:
nothing; what it finds becomes evidence on the rows of `curation`.
May import: expectations, transforms.curate, and streams.settings; Presidio in `presidio` alone, when it is made.
"""
