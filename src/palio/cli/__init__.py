"""The command line. Each command's module is imported only when the command runs."""
