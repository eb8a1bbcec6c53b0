"""Client of a gateway, used by the command line and the tests."""
