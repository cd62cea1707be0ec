"""Every pass in order, compiling, and the caches."""
