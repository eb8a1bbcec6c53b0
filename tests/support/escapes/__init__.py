"""Ways out of a sandbox, tried from inside; they are run nowhere but where the harness says so."""
