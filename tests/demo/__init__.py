"""What the tests of the demo share."""
