"""The rolling worker: a Faust application that keeps the statistics of skills and advises on levers.

Stage: behind the outcomes topic. Reads: outcomes, and its own changelogs. Writes: statistics and decisions to their
topics, changelogs, and HTTP views on loopback. Start at `app`.
May import: settings, topics and logs of streams, sinks, transforms and expectations.
"""
