"""Memory plugin that stores and recalls memories at a MemWal relayer."""
