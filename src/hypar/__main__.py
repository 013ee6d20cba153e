"""``python -m hypar``."""

from hypar.cli import main

if __name__ == "__main__":
    main()
