"""``python -m posse`` is the command ``posse``."""

from posse.cli.main import main

if __name__ == "__main__":
    main()
