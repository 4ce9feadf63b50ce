"""What the tests of landing share: events, producers, workers, faults, and a checker outside the program under test."""
