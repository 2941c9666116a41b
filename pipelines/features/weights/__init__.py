"""Weight files of feature networks: the registry, the store, downloads, and safe reading."""
