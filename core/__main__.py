"""`python -m core` is the command line `core`."""

from core.tools.command_line import main

if __name__ == "__main__":
    main()
