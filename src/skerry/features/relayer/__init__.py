"""Feature `relayer`: the command `skerry relayer`, which executes the separate relayer program."""
