"""Quality rules, in the suite format of Great Expectations: the only place where they are written.

`events.json`, `steps.json`, `runs.json` and `rewards.json` judge each row as it lands; `publication.json` judges each
batch before it is published. Great Expectations' own tools read and write these files; docs/expectations.md shows how.

Stage: gate, and before a publication. Reads: the JSON files of this folder, or of one that stands in its place.
Writes: nothing. May import: nothing of trajlake but the error tree.
"""
