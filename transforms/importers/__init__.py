"""Turns files of runs that already happened into events: one module a format, the format detected by content.

Stage: before Kafka. Reads: the text of a file given to it. Writes: events as return values.
May import: expectations and transforms. Pure, as all of transforms.

A file's bytes are framed into JSON values (`framing`), its format is told from the first of them (`sample`,
`detect`), and the format's module turns values into events (`tau_bench`, `atif`, `claude_code`). `plan` gives the
events of a file that grew, or comes again, sequence numbers that follow what has landed. A new format is one module
and one line in `detect.FORMATS`.
"""
