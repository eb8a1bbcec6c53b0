"""Signal: a signal-cli daemon, or the REST bridge around one."""
