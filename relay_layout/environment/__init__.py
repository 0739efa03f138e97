"""What the package runs in: this machine, the installed packages, and the process with its threads."""
