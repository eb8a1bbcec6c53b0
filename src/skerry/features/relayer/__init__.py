"""The command `skerry relayer`, which executes the relayer, a program of its own."""
