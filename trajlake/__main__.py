"""`python -m trajlake` is the `trajlake` command."""

from trajlake.cli import main

main()
