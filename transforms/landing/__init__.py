"""The land path of one partition as a pure function: records in log order in, rows of every table out.

Stage: all between consuming and committing. Reads: records, or the ledger's rows in their place.
Writes: rows and state.
May import: expectations and the stages that it composes. `partition` is where to start reading.
"""
