"""Takes secrets, people and denied fields out of an event, before anything is written.

Stage: before decoding for the usual event, behind it for the others. Reads: raw JSON or values given to it, keys of
pseudonyms given to it. Writes: nothing; returns the value without what was found, and for each finding its path, rule
and count, never the value. May import: expectations and transforms.records. Pure: no clock; the bound on time is a
bound on work.

`denylist` takes out fields by their name. `rules` is the table of what is found by its looks; `gates` and `prefilter`
decide fast what to look at; `detector` finds spans in one text, through the `views` of it; `redactor` walks values and
replaces.
"""
