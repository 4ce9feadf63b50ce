"""The recorder: what an agent calls to publish its runs, steps and tool calls.

Stage: before the log. Reads: what the agent gives it. Writes: events, through `trajlake.streams.publish`.
May import: expectations, streams.
"""
